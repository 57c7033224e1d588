package critest_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/podsync/sdk/cri/critest"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/cri/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell does what the suite's commands would do in a real container.
func shell(c memory.Container) (memory.Behaviour, bool) {
	b, _ := memory.Commands()(c)
	b.IgnoreTERM = strings.HasPrefix(strings.Join(c.Config.GetCommand(), " "), "sh -c trap ''")
	b.Exec = func(_ context.Context, cmd []string) memory.ExecResult {
		switch cmd[0] {
		case "both":
			return memory.ExecResult{Stdout: []byte("out"), Stderr: []byte("err")}
		case "sleep":
			return memory.ExecResult{Duration: 10 * time.Second}
		}
		return memory.ExecResult{ExitCode: 3}
	}
	return b, true
}

func newMemory(t *testing.T) (*memory.Runtime, critest.Backend) {
	rt := memory.New(memory.Options{
		Rules:    []memory.Rule{shell},
		Registry: map[string]memory.RemoteImage{"example.com/busybox:1": {}}, RegistryOnly: true,
	})
	t.Cleanup(rt.Shutdown)
	return rt, critest.Backend{
		Runtime: rt, Images: rt,
		Image: "example.com/busybox:1", NoImage: "example.com/nobody/has:this",
		Run:      []string{"sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"},
		Exit:     func(code int) []string { return []string{"sh", "-c", "exit " + strconv.Itoa(code)} },
		Stubborn: []string{"sh", "-c", "trap '' TERM; while :; do sleep 1; done"},
		Print:    func(line string) []string { return []string{"sh", "-c", "echo '" + line + "'"} },
		Exec:     &critest.ExecCommands{Print: []string{"both"}, Fail: []string{"fail"}, Sleep: []string{"sleep", "10"}},
		MakeUnknown: func(t *testing.T, id string) {
			if rt.SetUnknown(func(c memory.Container) bool { return c.ID == id }) != 1 {
				t.Fatalf("container %s does not run", id)
			}
		},
	}
}

func TestRuntime_memory(t *testing.T) {
	t.Parallel()
	critest.Runtime(t, func(t *testing.T) critest.Backend {
		rt, b := newMemory(t)
		t.Cleanup(func() { noLeftovers(t, rt) })
		return b
	})
}

// One runtime for all parts, behind a socket, as a real one is.
func TestRuntime_served(t *testing.T) {
	t.Parallel()
	rt, b := newMemory(t)
	b.Runtime, b.Images = serve(t, rt)
	critest.Runtime(t, func(*testing.T) critest.Backend { return b })
	noLeftovers(t, rt)
}

func TestRuntime_noEvents(t *testing.T) {
	t.Parallel()
	rt, b := newMemory(t)
	rt.SetEvents(memory.EventOptions{Unsupported: true})
	b.NoEvents, b.Stubborn, b.Exec = true, nil, nil
	b.Runtime, b.Images = serve(t, rt)
	critest.Runtime(t, func(*testing.T) critest.Backend { return b })
}

// Funcs that replace nothing are as good as what they stand before.
func TestRuntime_wrapped(t *testing.T) {
	t.Parallel()
	critest.Runtime(t, func(t *testing.T) critest.Backend {
		rt, b := newMemory(t)
		f := critest.Wrap(rt, rt)
		b.Runtime, b.Images, b.Stubborn = f, f, nil
		return b
	})
}

func serve(t *testing.T, rt *memory.Runtime) (internalapi.RuntimeService, internalapi.ImageManagerService) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- memory.Serve(ctx, rt, socket) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	r, err := remote.Dial(t.Context(), remote.Options{Endpoint: "unix://" + socket, Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r.Runtime(), r.Images()
}

func noLeftovers(t *testing.T, rt *memory.Runtime) {
	t.Helper()
	if l := rt.Leftovers(); len(l) > 0 {
		t.Errorf("left over: %q", l)
	}
}
