package cri_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// faultPod has one container of each kind.
func faultPod() *corev1.Pod {
	return podsynctest.Pod(initC("i"), sidecar("s"), container("b"), ephemeral("e", ""))
}

func faultRuntime() memory.Options {
	// The limit of a call is that of the client of a real runtime.
	return memory.Options{CallTimeout: 20 * time.Second, Rules: []memory.Rule{memory.Exits("i", 0), memory.Exits("e", 0)}}
}

// oneOfEach checks, at every call, that no two instances of a name run. It asks
// next with one call at a time.
func (n *node) oneOfEach(next memory.Intercept) memory.Intercept {
	var mu sync.Mutex
	return func(ctx context.Context, c memory.Call) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		n.checkOne(c.Method)
		return next(ctx, c)
	}
}

func (n *node) checkOne(when string) {
	seen := map[string]bool{}
	for _, c := range n.mem.Containers() {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING && c.State != runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			continue
		}
		if key := c.PodUID + "/" + c.Name; seen[key] {
			n.t.Errorf("two instances of %s run at %s: %s", c.Name, when, n.show())
		} else {
			seen[key] = true
		}
	}
}

// converged checks the end of a start: one sandbox, one instance of each.
func (n *node) converged(pod *corev1.Pod) {
	n.t.Helper()
	n.until(pod, "the pod's start", func() bool {
		return n.runs("app", "b", "s")() && n.readySandboxes() == 1
	})
	n.settle(pod)
	n.checkOne("the end")
	if got := n.running(); !slices.Equal(got, []string{"app", "b", "s"}) {
		n.t.Errorf("running: %v", got)
	}
	for _, c := range n.mem.Containers() {
		if c.Attempt > 2 {
			n.t.Errorf("%s was made %d times: %s", c.Name, c.Attempt+1, n.show())
		}
	}
	if left := n.observe(pod).Waiting; len(left) > 0 {
		n.t.Errorf("waiting although all runs: %v", left)
	}
}

// gone checks the end of a stop.
func (n *node) gone(pod *corev1.Pod) {
	n.t.Helper()
	n.remove(pod)
	if l := n.mem.Leftovers(); len(l) > 0 {
		n.t.Errorf("left over: %v", l)
	}
}

var faults = []struct {
	name  string
	fault memory.Fault
}{
	{"error", memory.Fault{Err: status.Error(codes.Internal, "broken")}},
	{"hang", memory.Fault{Hang: true}},
	{"reply lost", memory.Fault{LoseReply: memory.ErrReplyLost}},
	{"reply hangs", memory.Fault{HangReply: true}},
}

// TestEveryCallFails lets each call of a pod's start and stop in turn fail,
// hang or lose its reply: the pod comes up with one instance of each container,
// and goes without a trace.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for nth, more := 1, true; more; nth++ {
				more = false
				bubbleWith(t, faultRuntime(), shortCalls, func(t *testing.T, n *node) {
					n.t = t
					hit := ""
					n.mem.SetIntercept(n.oneOfEach(func(_ context.Context, c memory.Call) memory.Fault {
						if hit == "" && c.N == nth {
							hit, more = fmt.Sprintf("call %d, %s", nth, c.Method), true
							return f.fault
						}
						return memory.Fault{}
					}))
					pod := faultPod()
					n.converged(pod)
					n.gone(pod)
					if t.Failed() {
						t.Logf("the fault was %s at %s", f.name, hit)
					}
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

func shortCalls(o *cri.Options) { o.CallTimeout = 10 * time.Second }

// TestCase_REC_05: the agent dies before and after each call that changes
// something, in a start and in a stop, and another takes over.
func TestCase_REC_05(t *testing.T) {
	t.Parallel()
	for _, moment := range []memory.Moment{memory.Before, memory.After} {
		for _, phase := range []string{"start", "stop"} {
			t.Run(fmt.Sprintf("%s/%d", phase, moment), func(t *testing.T) {
				t.Parallel()
				for nth, more := 1, true; more; nth++ {
					bubbleWith(t, faultRuntime(), shortCalls, func(t *testing.T, n *node) {
						n.mem.SetIntercept(n.oneOfEach(func(context.Context, memory.Call) memory.Fault { return memory.Fault{} }))
						pod := faultPod()
						if phase == "stop" {
							n.converged(pod)
						}
						more = n.dieAt(nth, moment, pod, phase)
						n.mem.Restore()
						n.restart()
						if phase == "start" {
							n.converged(pod)
						}
						n.gone(pod)
						if t.Failed() {
							t.Logf("the power went at call %d", nth)
						}
					})
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// dieAt runs one phase until the power goes at the nth call that changes
// something; false when there are not as many.
func (n *node) dieAt(nth int, m memory.Moment, pod *corev1.Pod, phase string) bool {
	cut := n.mem.PowerCut(nth, m)
	for range 30 {
		if phase == "stop" {
			n.rt.StopContainers().Run(n.t.Context(), n.newSync(pod))
			_ = n.rt.Cleaner().Remove(n.t.Context(), pod.UID)
		} else {
			n.sync(n.t.Context(), pod)
		}
		select {
		case <-cut:
			return true
		default:
		}
		n.rt.Monitor().Invalidate(pod.UID)
	}
	return false
}

// TestCancelAtEveryCall cancels the run of the stage during each call in turn,
// as a termination does: nothing new is started after it, and the pod stops.
func TestCancelAtEveryCall(t *testing.T) {
	t.Parallel()
	for nth, more := 1, true; more; nth++ {
		more = false
		bubble(t, faultRuntime(), func(t *testing.T, n *node) {
			pod := faultPod()
			ctx, cancel := context.WithCancelCause(t.Context())
			after := []string{}
			// Image calls run beside the stage's own: which of two comes first after
			// a cancel in one of them is nobody's promise.
			mine := 0
			n.mem.SetIntercept(n.oneOfEach(func(_ context.Context, c memory.Call) memory.Fault {
				switch c.Method {
				case "ImageStatus", "PullImage":
					return memory.Fault{}
				}
				if ctx.Err() != nil {
					after = append(after, c.Method)
				} else if mine++; mine == nth {
					more = true
					cancel(podsync.ErrTerminating)
				}
				return memory.Fault{}
			}))
			for range 10 {
				if n.sync(ctx, pod); ctx.Err() != nil {
					break
				}
			}
			for _, m := range after {
				if strings.HasPrefix(m, "Create") || strings.HasPrefix(m, "Start") || strings.HasPrefix(m, "Run") {
					t.Errorf("%s after the pod was asked to stop at call %d", m, nth)
				}
			}
			cancel(nil)
			n.mem.SetIntercept(nil)
			n.gone(pod)
		})
		if t.Failed() {
			return
		}
	}
}
