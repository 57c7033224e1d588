package cri_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func (n *node) sandboxes(t *testing.T) []string {
	t.Helper()
	boxes, err := n.mem.ListPodSandbox(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(boxes, func(a, b *runtimeapi.PodSandbox) int { return int(a.CreatedAt - b.CreatedAt) })
	out := []string{}
	for _, b := range boxes {
		w := "ready"
		if b.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			w = "stopped"
		}
		out = append(out, w+strings.Repeat("+", int(b.Metadata.Attempt)))
	}
	return out
}

// TestCase_NET_01: no address is left, three times; then one is.
func TestCase_NET_01(t *testing.T) {
	t.Parallel()
	full := status.Error(codes.Unknown, `failed to setup network for sandbox "x": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.9.0.2-10.9.0.2`)
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.mem.SetIntercept(memory.Times(3, memory.FailCall("RunPodSandbox", full)))
		for range 3 {
			out := n.sync(t.Context(), pod)
			if out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonFailedCreatePodSandBox {
				t.Errorf("got %v", out)
			}
		}
		if n.count("CreateContainer") > 0 {
			t.Error("a container was made without a sandbox")
		}
		if !n.events.has(cri.ReasonFailedCreatePodSandBox, "no IP addresses available") {
			t.Errorf("events: %v", n.events.all)
		}
		n.settle(pod)
		if d := cmp.Diff([]string{"ready"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
		if n.show() != "app.0=RUNNING" {
			t.Errorf("got %s", n.show())
		}
	})
}

// TestHalfMadeSandboxIsStopped is NET-01's half-made sandbox: it is stopped
// before the next attempt.
func TestHalfMadeSandboxIsStopped(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.mem.SetIntercept(memory.Times(1, memory.LoseReply("RunPodSandbox", nil)))
		if out := n.sync(t.Context(), pod); out.Kind() != podsync.KindRetry {
			t.Fatalf("got %v", out)
		}
		if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.mem.ResetCalls()
		n.settle(pod)
		m := n.mutations()
		if stop, run := slices.Index(m, "StopPodSandbox"), slices.Index(m, "RunPodSandbox"); stop < 0 || run < stop {
			t.Errorf("calls: %v", m)
		}
		if d := cmp.Diff([]string{"stopped", "ready+"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
	})
}

// TestCase_RUN_02: the sandbox's name is taken by an attempt that timed out and
// shows only later.
func TestCase_RUN_02(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		var attempts []uint32
		calls := 0
		n.mem.SetIntercept(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Method == "ListPodSandbox" && calls > 0 && calls < 3 {
				return memory.Fault{}
			}
			if c.Method != "RunPodSandbox" {
				return memory.Fault{}
			}
			calls++
			attempts = append(attempts, c.Request.(*runtimeapi.RunPodSandboxRequest).Config.Metadata.Attempt)
			switch calls {
			case 1:
				return memory.Fault{Err: status.Error(codes.DeadlineExceeded, "context deadline exceeded")}
			case 2:
				return memory.Fault{Err: status.Error(codes.Unknown, `failed to reserve sandbox name "web_default_web-uid_0": name is reserved for "S"`)}
			case 3:
				return memory.Fault{LoseReply: memory.ErrReplyLost} // the old attempt's, as it comes to light
			}
			return memory.Fault{}
		})
		for range 3 {
			n.sync(t.Context(), pod)
		}
		if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.settle(pod)
		if d := cmp.Diff([]uint32{0, 0, 0, 1}, attempts); d != "" {
			t.Errorf("attempts (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"stopped", "ready+"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
		addresses := 0
		for _, l := range n.mem.Leftovers() {
			if strings.HasPrefix(l, "address") {
				addresses++
			}
		}
		if addresses != 1 {
			t.Errorf("%d addresses are held, want 1", addresses)
		}
	})
}

// TestCase_NET_09 looks at what a runtime's restart may leave of a sandbox; the
// other variants are rows of the planner's table.
func TestCase_NET_09(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		// An error is not an empty address.
		n.mem.SetIntercept(memory.Times(2, memory.FailCall("PodSandboxStatus", status.Error(codes.Unavailable, "shutting down"))))
		for range 2 {
			n.rt.Monitor().Invalidate(pod.UID)
			if out := n.sync(t.Context(), pod); out.Kind() != podsync.KindRetry {
				t.Errorf("got %v", out)
			}
		}
		if d := cmp.Diff([]string{"ready"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
		if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.settle(pod)
		if d := cmp.Diff([]string{"stopped", "ready+"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
		if !n.events.has(cri.ReasonSandboxChanged, "NotReady") {
			t.Errorf("events: %v", n.events.all)
		}
	})
}

// TestCase_WRK_04: a pod is deleted while its sandbox is being made.
func TestCase_WRK_04(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.mem.SetIntercept(memory.Delay("RunPodSandbox", 3*time.Second))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(podsync.ErrTerminating) })
		out := n.sync(ctx, pod)
		if out.Kind() != podsync.KindCanceled {
			t.Errorf("got %v", out)
		}
		n.stop(pod, 30*time.Second)
		m := slices.DeleteFunc(n.mutations(), func(s string) bool { return s == "PullImage" })
		if d := cmp.Diff([]string{"RunPodSandbox", "StopPodSandbox"}, m); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		n.remove(pod)
		if l := n.mem.Leftovers(); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
	})
}

// TestCase_REC_06: the runtime restarts under a live agent.
func TestCase_REC_06(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("unknown"), container("missing"))
		n.settle(pod)
		n.mem.Down()
		n.rt.Monitor().Invalidate(pod.UID)
		for range 30 {
			if out := n.sync(t.Context(), pod); out.Kind() != podsync.KindRetry {
				t.Errorf("while the runtime is away: %v", out)
			}
			time.Sleep(time.Second)
		}
		n.mem.SetUnknown(func(c memory.Container) bool { return c.Name == "unknown" })
		n.mem.Forget(func(c memory.Container) bool { return c.Name == "missing" })
		n.mem.Up()
		n.settle(pod)
		if want := "app.0=RUNNING unknown.0=EXITED(255) unknown.1=RUNNING missing.1=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}

// TestStuckCallConcernsItsPodAlone: calls that hang take no slot for ever.
func TestStuckCallConcernsItsPodAlone(t *testing.T) {
	t.Parallel()
	bubbleWith(t, memory.Options{}, func(o *cri.Options) { o.MaxInFlight = 1 }, func(t *testing.T, n *node) {
		stuck, other := podsynctest.Pod(podsynctest.Named("stuck")), podsynctest.Pod(podsynctest.Named("other"))
		n.mem.SetIntercept(memory.When(func(c memory.Call) bool {
			r, ok := c.Request.(*runtimeapi.RunPodSandboxRequest)
			return ok && r.Config.Metadata.Name == "stuck"
		}, memory.Fault{Hang: true}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan podsync.Outcome)
		go func() { done <- n.sync(ctx, stuck) }()
		time.Sleep(time.Second)
		began := time.Now()
		n.settle(other)
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("the other pod took %s", d)
		}
		cancel()
		<-done
	})
}
