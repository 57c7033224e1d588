package remote_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/cri/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve puts an in-memory runtime on a socket until the test ends.
func serve(t *testing.T, o memory.Options) (*memory.Runtime, string) {
	t.Helper()
	mem := memory.New(o)
	path := filepath.Join(t.TempDir(), "cri.sock")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- memory.Serve(ctx, mem, path) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		mem.Shutdown()
	})
	for range 500 {
		if _, err := os.Stat(path); err == nil {
			return mem, "unix://" + path
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the socket does not appear")
	return nil, ""
}

func dial(t *testing.T, o remote.Options) *remote.Remote {
	t.Helper()
	r, err := remote.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestDial(t *testing.T) {
	t.Parallel()
	mem, endpoint := serve(t, memory.Options{CgroupDriver: "systemd"})
	r := dial(t, remote.Options{Candidates: []string{"unix:///nowhere.sock", endpoint}})
	if r.Endpoint() != endpoint {
		t.Errorf("connected to %s", r.Endpoint())
	}
	if v := r.Version(); v.API != "v1" || v.Runtime == "" || v.RuntimeVersion == "" {
		t.Errorf("version: %+v", v)
	}
	if d, err := r.CgroupDriver(t.Context()); err != nil || d != remote.CgroupDriverSystemd {
		t.Errorf("cgroup driver: %s, %v", d, err)
	}
	mem.SetNetworkReady(false, "NetworkPluginNotReady", "cni plugin not initialized")
	s, err := r.Status(t.Context())
	if err != nil || !s.RuntimeReady || s.NetworkReady || s.NetworkMessage != "NetworkPluginNotReady: cni plugin not initialized" {
		t.Errorf("status: %+v, %v", s, err)
	}
	if l, err := r.Images().ListImages(t.Context(), nil); err != nil || len(l) != 0 {
		t.Errorf("images: %v, %v", l, err)
	}
}

func TestDialNobody(t *testing.T) {
	t.Parallel()
	var ne *remote.NoEndpointError
	_, err := remote.Dial(t.Context(), remote.Options{Candidates: []string{"unix:///a.sock", "unix:///b.sock"}})
	if !errors.As(err, &ne) || !strings.Contains(err.Error(), "unix:///a.sock, unix:///b.sock") {
		t.Errorf("got %v", err)
	}
	began := time.Now()
	_, err = remote.Dial(t.Context(), remote.Options{Endpoint: "unix:///nowhere.sock"})
	if err == nil || !strings.Contains(err.Error(), "unix:///nowhere.sock") || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = remote.Dial(ctx, remote.Options{Endpoint: "unix:///nowhere.sock", Wait: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDialWaits(t *testing.T) {
	t.Parallel()
	mem := memory.New(memory.Options{})
	defer mem.Shutdown()
	path := filepath.Join(t.TempDir(), "late.sock")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { done <- memory.Serve(ctx, mem, path) })
	r, err := remote.Dial(t.Context(), remote.Options{Endpoint: "unix://" + path, Wait: 30 * time.Second})
	if err != nil {
		t.Error(err)
	} else if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// oldRuntime speaks CRI v1alpha2 alone.
type oldRuntime struct{}

func (oldRuntime) version(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := dec(&runtimeapi.VersionRequest{}); err != nil {
		return nil, err
	}
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "1.5.9", RuntimeApiVersion: "v1alpha2"}, nil
}

// TestDialOldVersion names the version found and the way out.
func TestDialOldVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		register func(*grpc.Server)
		want     []string
	}{
		{"v1alpha2", func(s *grpc.Server) {
			s.RegisterService(&grpc.ServiceDesc{ServiceName: "runtime.v1alpha2.RuntimeService", HandlerType: (*any)(nil),
				Methods: []grpc.MethodDesc{{MethodName: "Version", Handler: oldRuntime{}.version}}}, oldRuntime{})
		}, []string{"containerd 1.5.9", "v1alpha2", "not v1", "containerd 1.6"}},
		{"no CRI at all", func(*grpc.Server) {}, []string{"does not serve CRI v1", "CRI plugin"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "old.sock"))
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer()
			tt.register(s)
			done := make(chan struct{})
			go func() { defer close(done); _ = s.Serve(l) }()
			defer func() { s.Stop(); <-done }()
			_, err = remote.Dial(t.Context(), remote.Options{Endpoint: "unix://" + l.Addr().String(), Wait: time.Minute})
			var ve *remote.VersionError
			if !errors.As(err, &ve) {
				t.Fatalf("got %v", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

// TestQuiet: failed calls are returned, and written nowhere but to the logger given.
func TestQuiet(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = stderr }()
	mem, endpoint := serve(t, memory.Options{})
	mem.SetIntercept(memory.FailCall("ListContainers", errors.New("broken")))
	var log bytes.Buffer
	c := dial(t, remote.Options{Endpoint: endpoint, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if _, err := c.Runtime().ListContainers(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Runtime().ContainerStatus(t.Context(), "none", false); err == nil {
		t.Error("no error")
	}
	if !strings.Contains(log.String(), "level=DEBUG") || !strings.Contains(log.String(), "broken") || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("log: %s", log.String())
	}
	os.Stderr = stderr
	w.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("standard error: %s", out.String())
	}
}
