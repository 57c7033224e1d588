package cri_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// watched counts how often the monitor woke each pod.
type watched struct {
	mu    sync.Mutex
	times map[types.UID][]time.Time
}

func (w *watched) count(uid types.UID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.times[uid])
}

func (w *watched) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times = map[types.UID][]time.Time{}
}

// watch runs the monitor until the test ends.
func (n *node) watch() *watched {
	w := &watched{times: map[types.UID][]time.Time{}}
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- n.rt.Monitor().Watch(ctx, func(uid types.UID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.times[uid] = append(w.times[uid], time.Now())
		})
	}()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("watch: %v", err)
		}
	})
	synctest.Wait()
	return w
}

// TestOwnChangesWakeNobody: what a stage does itself is no news, and what
// happens by itself is, once.
func TestOwnChangesWakeNobody(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		n.observe(pod)
		w := n.watch()
		n.settle(pod)
		time.Sleep(time.Minute)
		if c := w.count(pod.UID); c > 0 {
			t.Errorf("the pod's own start woke it %d times", c)
		}
		if err := n.mem.Exit(string(pod.UID), "b", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("an exit woke the pod %d times", c)
		}
		n.settle(pod)
		n.stop(pod, time.Second)
		n.observe(pod) // as the agent does before the next phase
		time.Sleep(time.Minute)
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("the pod's own restart and stop woke it %d times", c-1)
		}
	})
}

// TestExitDuringAFailedRunIsNotLost: what happens while a stage acts wakes the
// pod when the stage does not come again at once.
func TestExitDuringAFailedRunIsNotLost(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		n.observe(pod)
		w := n.watch()
		n.mem.SetIntercept(func(_ context.Context, c memory.Call) memory.Fault {
			if r, ok := c.Request.(*runtimeapi.CreateContainerRequest); ok && r.Config.Metadata.Name == "b" {
				if err := n.mem.Exit(string(pod.UID), "app", 1); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				return memory.Fault{Err: status.Error(codes.Internal, "no")}
			}
			return memory.Fault{}
		})
		n.sync(t.Context(), pod)
		synctest.Wait()
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("the exit woke the pod %d times", c)
		}
	})
}

// TestWithoutEvents: a runtime that streams no events is looked at each second.
func TestWithoutEvents(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{Events: memory.EventOptions{Unsupported: true}}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		w := n.watch()
		time.Sleep(5 * time.Minute)
		if c := w.count(pod.UID); c > 0 {
			t.Errorf("nothing happened, and the pod was woken %d times", c)
		}
		if err := n.mem.Exit(string(pod.UID), "app", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("an exit woke the pod %d times", c)
		}
		if p := n.observe(pod); p.Container("app").ExitCode != 1 {
			t.Errorf("the exit code is %d", p.Container("app").ExitCode)
		}
	})
}

// TestLostEventsAreMadeUpFor: an event that never comes is found by the list.
func TestLostEventsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{Events: memory.EventOptions{Drop: func(*runtimeapi.ContainerEventResponse) bool { return true }}}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		w := n.watch()
		time.Sleep(10 * time.Minute)
		lists := n.count("ListPodSandbox")
		time.Sleep(10 * time.Minute)
		if d := n.count("ListPodSandbox") - lists; d < 9 || d > 11 {
			t.Errorf("%d lists in 10 min of silence, want 10", d)
		}
		if err := n.mem.Exit(string(pod.UID), "app", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("an exit woke the pod %d times", c)
		}
	})
}

// TestStreamIsOpenedAgain: a broken stream loses nothing.
func TestStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		w := n.watch()
		time.Sleep(time.Hour)
		n.mem.Down()
		if err := n.mem.Exit(string(pod.UID), "app", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if c := w.count(pod.UID); c > 0 {
			t.Errorf("a runtime that is away woke the pod %d times", c)
		}
		n.mem.Up()
		time.Sleep(2 * time.Second)
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("what was missed woke the pod %d times", c)
		}
		n.settle(pod)
		time.Sleep(time.Minute)
		w.reset()
		if err := n.mem.Exit(string(pod.UID), "app", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("after the outage an exit woke the pod %d times", c)
		}
	})
}

// TestCase_PLG_02: a container that vanishes between list and status is no
// error; a list that fails is no death; a status that fails is told and tried again.
func TestCase_PLG_02(t *testing.T) {
	t.Parallel()
	away := status.Error(codes.Unavailable, "away")
	t.Run("a", func(t *testing.T) {
		t.Parallel()
		bubble(t, memory.Options{}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod(container("b"))
			n.settle(pod)
			n.mem.SetIntercept(memory.When(func(c memory.Call) bool { return c.Method == "ContainerStatus" },
				memory.Fault{Err: status.Error(codes.NotFound, "gone")}))
			n.rt.Monitor().Invalidate(pod.UID)
			if p := n.observe(pod); len(p.Containers) != 0 {
				t.Errorf("containers: %v", p.Containers)
			}
		})
	})
	t.Run("b", func(t *testing.T) {
		t.Parallel()
		bubble(t, memory.Options{Events: memory.EventOptions{Unsupported: true}}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod()
			n.settle(pod)
			w := n.watch()
			time.Sleep(time.Minute)
			n.mem.SetIntercept(memory.FailCall("ListPodSandbox", away))
			time.Sleep(2 * time.Minute)
			if c := w.count(pod.UID); c > 0 {
				t.Errorf("a list that fails woke the pod %d times", c)
			}
			if p := n.observe(pod); !p.Container("app").Running() {
				t.Error("what was known is forgotten")
			}
			if err := n.rt.Monitor().Healthy(); err != nil {
				t.Errorf("after 2 min: %v", err)
			}
			time.Sleep(2 * time.Minute)
			var u *cri.UnhealthyError
			if err := n.rt.Monitor().Healthy(); !errors.As(err, &u) {
				t.Errorf("after 4 min: %v", err)
			}
		})
	})
	t.Run("c", func(t *testing.T) {
		t.Parallel()
		bubble(t, memory.Options{}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod()
			n.settle(pod)
			n.mem.SetIntercept(memory.Times(1, memory.FailCall("ContainerStatus", away)))
			n.rt.Monitor().Invalidate(pod.UID)
			if _, err := n.rt.Monitor().Observe(t.Context(), pod.UID); status.Code(errors.Unwrap(errors.Unwrap(err))) != codes.Unavailable {
				t.Errorf("got %v", err)
			}
			if p := n.observe(pod); !p.Container("app").Running() {
				t.Error("the state is wrong after the second try")
			}
		})
	})
}

// TestCase_PLG_03: a list that hangs makes the runtime unhealthy after 3 min,
// and it recovers by itself.
func TestCase_PLG_03(t *testing.T) {
	t.Parallel()
	bubbleWith(t, memory.Options{}, func(o *cri.Options) { o.CallTimeout = 10 * time.Minute }, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		n.mem.SetIntercept(memory.Times(1, memory.Delay("ListContainers", 4*time.Minute)))
		n.watch()
		time.Sleep(170 * time.Second)
		if err := n.rt.Monitor().Healthy(); err != nil {
			t.Errorf("before 3 min: %v", err)
		}
		time.Sleep(20 * time.Second)
		if err := n.rt.Monitor().Healthy(); err == nil {
			t.Error("after 3 min: healthy")
		}
		// Another pod is not held up.
		began := time.Now()
		n.settle(podsynctest.Pod(podsynctest.Named("other")))
		if d := time.Since(began); d > 0 {
			t.Errorf("another pod took %s", d)
		}
		time.Sleep(time.Minute)
		if err := n.rt.Monitor().Healthy(); err != nil {
			t.Errorf("after the list came back: %v", err)
		}
		if d := n.running(); !slices.Equal(d, []string{"app", "app"}) {
			t.Errorf("running: %v", d)
		}
	})
}

// TestCase_PLG_04: a container that starts and exits between two looks.
func TestCase_PLG_04(t *testing.T) {
	t.Parallel()
	o := memory.Options{Events: memory.EventOptions{Unsupported: true}, Rules: []memory.Rule{memory.ExitsAfter("app", 300*time.Millisecond, 7)}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Restart("Never"))
		n.observe(pod)
		w := n.watch()
		time.Sleep(time.Minute)
		n.settle(pod)
		time.Sleep(1100 * time.Millisecond)
		if c := w.count(pod.UID); c != 1 {
			t.Errorf("a: the exit woke the pod %d times", c)
		}
		if c := n.observe(pod).Container("app"); c.ExitCode != 7 {
			t.Errorf("a: the exit code is %d", c.ExitCode)
		}
	})
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		n.mem.Forget(func(memory.Container) bool { return true })
		n.rt.Monitor().Invalidate(pod.UID) // the periodic sync looks afresh
		n.settle(pod)
		if n.show() != "app.1=RUNNING" {
			t.Errorf("b: got %s", n.show())
		}
	})
}

// TestObserveDoesNotWait: an inspection of one pod that hangs concerns that pod
// alone, and gives way to its context.
func TestObserveDoesNotWait(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		n.mem.SetIntercept(memory.Hang("PodSandboxStatus"))
		n.rt.Monitor().Invalidate(pod.UID)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := n.rt.Monitor().Observe(ctx, pod.UID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := n.rt.Monitor().Observe(t.Context(), "another"); err != nil {
			t.Error(err)
		}
	})
}

func TestSetWaitingAndProbe(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		before := n.observe(pod)
		n.rt.Monitor().SetProbe(pod.UID, "app", probe("x", true))
		after := n.observe(pod)
		if before == after || len(before.Probes) != 0 || after.Probes["app"] != probe("x", true) {
			t.Errorf("before %v, after %v", before.Probes, after.Probes)
		}
		n.rt.Monitor().SetProbe(pod.UID, "app", probe("x", true))
		if n.observe(pod) != after {
			t.Error("the same result makes another state")
		}
		n.rt.Monitor().Forget(pod.UID)
		if p := n.observe(pod); len(p.Probes) != 0 {
			t.Errorf("probes after Forget: %v", p.Probes)
		}
	})
}

func probe(id string, ok bool) podsync.ProbeResult {
	return podsync.ProbeResult{ContainerID: id, Started: ok, Ready: ok}
}
