package memory_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"github.com/podsync/sdk/cri/memory"
)

// serve serves n on a socket until the test ends, and returns the socket once it is there.
func (n node) serve() string {
	n.t.Helper()
	dir, err := os.MkdirTemp("", "cri") // short: a socket's path has at most 107 bytes
	n.ok(err)
	n.t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "cri.sock")
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.ctx()))
	done := make(chan error, 1)
	go func() { done <- memory.Serve(ctx, n.Runtime, "unix://"+path) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("serve: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			n.t.Errorf("the socket is left: %v", err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
		if time.Now().After(deadline) {
			n.t.Fatal("no socket after 10 s")
		}
		time.Sleep(time.Millisecond)
	}
}

func clients(t *testing.T, path string) (internalapi.RuntimeService, internalapi.ImageManagerService) {
	t.Helper()
	rt, err := remote.NewRemoteRuntimeService(t.Context(), "unix://"+path, 10*time.Second, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	images, err := remote.NewRemoteImageService(t.Context(), "unix://"+path, 10*time.Second, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(rt.Close(context.WithoutCancel(t.Context())), images.Close(context.WithoutCancel(t.Context()))); err != nil {
			t.Error(err)
		}
	})
	return rt, images
}

// TestServe drives a served runtime with k8s.io/cri-client, which checks every answer.
func TestServe(t *testing.T) {
	n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{
		Exec: func(context.Context, []string) memory.ExecResult {
			return memory.ExecResult{Stdout: []byte("hi"), ExitCode: 3}
		},
	})}})
	path := n.serve()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket mode: %v, %v", info.Mode(), err)
	}
	rt, images := clients(t, path)
	ctx := t.Context()
	v, err := rt.Version(ctx, "v1")
	n.ok(err)
	if v.RuntimeApiVersion != "v1" {
		t.Errorf("version: %v", v)
	}
	events := make(chan *runtimeapi.ContainerEventResponse, 100)
	eventCtx, endEvents := context.WithCancel(ctx)
	streamed := make(chan error, 1)
	go func() { streamed <- rt.GetContainerEvents(eventCtx, events, nil) }()

	ref, err := images.PullImage(ctx, spec("busybox"), &runtimeapi.AuthConfig{Username: "u"}, nil)
	n.ok(err)
	list, err := images.ListImages(ctx, nil)
	n.ok(err)
	if len(list) != 1 || list[0].Id != ref {
		t.Errorf("images: %v", list)
	}
	sandbox, err := rt.RunPodSandbox(ctx, podConfig("web"), "")
	n.ok(err)
	id, err := rt.CreateContainer(ctx, sandbox, containerConfig("app"), podConfig("web"))
	n.ok(err)
	n.ok(rt.StartContainer(ctx, id))
	stdout, _, err := rt.ExecSync(ctx, id, []string{"x"}, time.Second)
	if code, ok := errors.AsType[utilexec.CodeExitError](err); !ok || code.Code != 3 || string(stdout) != "hi" {
		t.Errorf("exec: %q, %v", stdout, err)
	}
	st, err := rt.ContainerStatus(ctx, id, true)
	n.ok(err)
	if st.Status.State != running || st.Info["info"] == "" {
		t.Errorf("status: %v", st)
	}
	pods, err := rt.ListPodSandbox(ctx, nil)
	n.ok(err)
	containers, err := rt.ListContainers(ctx, nil)
	n.ok(err)
	if len(pods) != 1 || len(containers) != 1 {
		t.Errorf("lists: %v, %v", pods, containers)
	}
	if _, err := rt.ContainerStatus(ctx, "none", false); !crierrors.IsNotFound(err) {
		t.Errorf("not found over the socket: %v", err)
	}
	n.ok(rt.StopContainer(ctx, id, 30))
	n.ok(rt.RemovePodSandbox(ctx, sandbox))
	for _, want := range []string{"CREATED", "STARTED", "CREATED", "STARTED", "STOPPED", "STOPPED", "DELETED", "DELETED"} {
		if e := <-events; e.ContainerEventType.String() != "CONTAINER_"+want+"_EVENT" {
			t.Errorf("event %s, want %s", e.ContainerEventType, want)
		}
	}
	endEvents()
	if err := <-streamed; status.Code(err) != codes.Canceled {
		t.Errorf("event stream: %v", err)
	}
	n.SetIntercept(memory.FailCall("Status", status.Error(codes.ResourceExhausted, "busy")))
	if _, err := rt.Status(ctx, false); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fault over the socket: %v", err)
	}
	lines := strings.Join(n.Calls().Of("RunPodSandbox", "StopContainer").Lines(), "; ")
	if want := "RunPodSandbox default/web#0; StopContainer default/web/app grace=30"; lines != want {
		t.Errorf("calls %q, want %q", lines, want)
	}
}

func TestServeEndsCallsThatWait(t *testing.T) {
	n := newNode(t, memory.Options{Intercept: memory.Hang("RunPodSandbox")})
	path := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- memory.Serve(ctx, n.Runtime, path) }()
	for _, err := os.Lstat(path); err != nil; _, err = os.Lstat(path) {
		time.Sleep(time.Millisecond)
	}
	rt, _ := clients(t, path)
	called := make(chan error, 1)
	go func() {
		_, err := rt.RunPodSandbox(t.Context(), podConfig("web"), "")
		called <- err
	}()
	for len(n.Calls().Of("RunPodSandbox")) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if err := <-called; err == nil {
		t.Error("the call that waited succeeded")
	}
}

func TestServeAndTheSocketsPlace(t *testing.T) {
	n := newNode(t, memory.Options{})
	used := n.serve()
	if err := memory.Serve(t.Context(), n.Runtime, used); !errors.Is(err, memory.ErrSocketInUse) {
		t.Errorf("a socket in use: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	n.ok(os.WriteFile(file, []byte("precious"), 0o600))
	if err := memory.Serve(t.Context(), n.Runtime, file); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file in the way: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file was touched: %q, %v", data, err)
	}
	if err := memory.Serve(t.Context(), n.Runtime, filepath.Join(dir, "none", "s")); err == nil {
		t.Error("a directory that is not there")
	}
	stale := filepath.Join(dir, "stale")
	l, err := net.Listen("unix", stale)
	n.ok(err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	n.ok(l.Close())
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- memory.Serve(ctx, n.Runtime, stale) }()
	for {
		c, err := net.Dial("unix", stale)
		if err == nil {
			n.ok(c.Close())
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	n.ok(<-served)
	if left, err := filepath.Glob(filepath.Join(dir, ".s*")); err != nil || len(left) != 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

func TestCrictl(t *testing.T) {
	bin := os.Getenv("PODSYNC_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", ".bin")
	}
	crictl, err := filepath.Abs(filepath.Join(bin, "crictl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(crictl); err != nil {
		t.Skip("needs crictl (make runtime)")
	}
	n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{
		Exec: func(context.Context, []string) memory.ExecResult {
			return memory.ExecResult{Stdout: []byte("hello from exec\n")}
		},
		Usage: memory.Usage{MemoryBytes: 1 << 20, CPUNanoCores: 1e8},
	})}})
	_, id := n.start("web")
	path := n.serve()
	tests := []struct {
		args string
		want string
	}{
		{"version", "podsync-memory"},
		{"info", "RuntimeReady"},
		{"pods", "web"},
		{"ps", "app"},
		{"images", "docker.io/library/busybox"},
		{"inspect " + id[:13], `"app"`},
		{"inspecti busybox", "docker.io/library/busybox"},
		{"exec -s " + id[:13] + " hi", "hello from exec"},
		{"stats", "app"},
		{"pull alpine", "Image is up to date"},
		{"stop " + id[:13], id[:13]},
		{"ps -a", "Exited"},
		{"rmp -fa", "Removed sandbox"},
	}
	for _, tt := range tests {
		args := append([]string{"--runtime-endpoint", "unix://" + path, "--image-endpoint", "unix://" + path}, strings.Fields(tt.args)...)
		cmd := exec.CommandContext(t.Context(), crictl, args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("crictl %s: %v, want …%s…\n%s", tt.args, err, tt.want, out)
		}
	}
}
