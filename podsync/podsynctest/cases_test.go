package podsynctest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/objects"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/status/statustest"
)

// Cases from public bug reports on a whole agent: what its parts are tested for
// one by one has to hold when they work together.

// bubbleNode runs a test on a node in a bubble.
func bubbleNode(t *testing.T, name string, o podsynctest.NodeOptions, fn func(t *testing.T, n *podsynctest.Node)) {
	t.Helper()
	if o.Memory.Record == 0 {
		o.Memory.Record = 1 << 18 // a case looks at all calls of many minutes
	}
	inBubble(t, name, func(t *testing.T) { fn(t, podsynctest.NewNode(t, o)) })
}

// index is where the first call is that the text begins, -1 if there is none.
func index(calls memory.Calls, prefix string) int {
	return slices.IndexFunc(calls.Lines(), func(l string) bool { return strings.HasPrefix(l, prefix) })
}

func lastIndex(calls memory.Calls, prefix string) int {
	last := -1
	for i, l := range calls.Lines() {
		if strings.HasPrefix(l, prefix) {
			last = i
		}
	}
	return last
}

// late is a source that has not been seen before put is called.
type late struct {
	podsynctest.FakeSource
	sets chan []*corev1.Pod
}

func newLate(name string) *late {
	l := &late{sets: make(chan []*corev1.Pod)}
	l.SourceName = name
	l.RunFunc = func(ctx context.Context, set func([]*corev1.Pod)) error {
		for {
			select {
			case pods := <-l.sets:
				set(pods)
			case <-ctx.Done():
				return nil
			}
		}
	}
	return l
}

// container returns the newest container of that name.
func container(t *testing.T, n *podsynctest.Node, name string) memory.Container {
	t.Helper()
	for _, c := range slices.Backward(n.Runtime.Containers()) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %s", name)
	return memory.Container{}
}

func requests(cpu string) podsynctest.PodOption {
	return podsynctest.Requests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)})
}

func withCPU(cpu string) func(c *node.Config) {
	return func(c *node.Config) {
		quick(c)
		c.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("10")}
	}
}

// A pod that has ended for its API but still stops holds its resources.
func TestCase_ADM_02_StoppingPodHoldsItsRoom(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{
		Change: withCPU("3"), Memory: memory.Options{Rules: []memory.Rule{memory.InPod("old", "app", memory.Behaviour{TermDelay: 20 * time.Second})}},
	}, func(t *testing.T, n *podsynctest.Node) {
		old := podsynctest.Pod(podsynctest.Named("old"), podsynctest.Grace(30*time.Second), requests("2"))
		n.Apply(old)
		n.WaitRunning("old-uid")
		old.Status.Phase = corev1.PodFailed
		n.Apply(old)
		time.Sleep(time.Second)
		n.Apply(podsynctest.Pod(podsynctest.Named("new"), requests("2")))
		st := n.Wait("new-uid", podsynctest.Phase(corev1.PodFailed))
		if st.Reason != "OutOfcpu" {
			t.Errorf("new pod while old stops: %s: %s", st.Reason, st.Message)
		}
		if c := container(t, n, "app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("old has stopped already: %v", c.State)
		}
		time.Sleep(25 * time.Second)
		n.Apply(podsynctest.Pod(podsynctest.Named("newer"), requests("2")))
		n.WaitRunning("newer-uid")
	})
}

// After a restart of the agent finished pods count nothing, in whatever order
// they come, and nothing of them runs again.
func TestCase_ADM_03_FinishedPodsAfterARestart(t *testing.T) {
	rules := []memory.Rule{memory.InPod("run", "app", memory.Behaviour{}), memory.Exits("app", 0)}
	for _, order := range []string{"run first", "run last"} {
		bubbleNode(t, order, podsynctest.NodeOptions{Change: withCPU("4"), Memory: memory.Options{Rules: rules}}, func(t *testing.T, n *podsynctest.Node) {
			at := time.Now()
			var pods []*corev1.Pod
			for i := range 5 {
				p := podsynctest.Pod(podsynctest.Named(fmt.Sprintf("done-%d", i)), podsynctest.Restart(corev1.RestartPolicyNever), requests("1"))
				p.CreationTimestamp.Time = at.Add(time.Duration(i) * time.Second)
				pods = append(pods, p)
			}
			run := podsynctest.Pod(podsynctest.Named("run"), requests("3"))
			run.CreationTimestamp.Time = at.Add(time.Minute)
			if order == "run first" {
				run.CreationTimestamp.Time = at.Add(-time.Minute)
			}
			for _, p := range pods {
				n.Apply(p)
				st := n.Wait(p.UID, podsynctest.Phase(corev1.PodSucceeded))
				p.Status = *st.DeepCopy()
				n.Apply(p)
			}
			time.Sleep(time.Second)
			n.Apply(run)
			n.WaitRunning("run-uid")
			id := container(t, n, "app").ID
			n.Runtime.ResetCalls()
			n.Restart()
			time.Sleep(time.Minute)
			n.WaitRunning("run-uid")
			if got := container(t, n, "app").ID; got != id {
				t.Errorf("the container of run was replaced")
			}
			for _, p := range pods {
				if st := n.Status(p.UID); st.Phase != corev1.PodSucceeded {
					t.Errorf("%s: %s %s", p.Name, st.Phase, st.Reason)
				}
			}
			if made := n.Runtime.Calls().Of("RunPodSandbox", "CreateContainer", "StartContainer"); len(made) > 0 {
				t.Errorf("made after the restart:\n%s", made)
			}
		})
	}
}

// The manifest is removed and put back at random moments: runs never overlap and
// the last word holds.
func TestCase_WRK_01_RemovedAndPutBack(t *testing.T) {
	slow := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 5 * time.Second})}}
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick, Memory: slow}, func(t *testing.T, n *podsynctest.Node) {
		p := podsynctest.Pod()
		n.Apply(p)
		n.WaitRunning("web-uid")
		n.Delete("web-uid")
		time.Sleep(time.Second)
		n.Apply(p)
		time.Sleep(10 * time.Second)
		n.WaitRunning("web-uid")
		if made := n.Runtime.Calls().Of("RunPodSandbox"); len(made) != 2 {
			t.Errorf("sandboxes made:\n%s\nwant 2", made)
		}
		pauses := []time.Duration{0, time.Millisecond, 3 * time.Second, 7 * time.Second, 500 * time.Millisecond}
		for i := range 20 {
			n.Delete("web-uid")
			time.Sleep(pauses[i%5])
			n.Apply(p)
			time.Sleep(pauses[(i*3+1)%5])
			if ready := readySandboxes(t, n, "web-uid"); ready > 1 {
				t.Fatalf("%d ready sandboxes", ready)
			}
			once(t, n.Runtime)
		}
		time.Sleep(20 * time.Second)
		n.WaitRunning("web-uid")
		if ready := readySandboxes(t, n, "web-uid"); ready != 1 {
			t.Errorf("%d ready sandboxes at the end", ready)
		}
	})
}

func readySandboxes(t *testing.T, n *podsynctest.Node, uid types.UID) int {
	t.Helper()
	l, err := n.Runtime.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(uid)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	must(t, err)
	return len(l)
}

// A pod that is deleted while its sandbox is being made gets no container.
func TestCase_WRK_04_DeletedWhileTheSandboxIsMade(t *testing.T) {
	opts := podsynctest.NodeOptions{Change: quick, Memory: memory.Options{Intercept: memory.Delay("RunPodSandbox", 3*time.Second)}}
	opts.Change = func(c *node.Config) { quick(c); c.CRI.CallTimeout = time.Minute }
	for _, how := range []string{"deletionTimestamp", "removed"} {
		bubbleNode(t, how, opts, func(t *testing.T, n *podsynctest.Node) {
			p := podsynctest.Pod()
			n.Apply(p)
			time.Sleep(time.Second)
			if how == "removed" {
				n.Delete("web-uid")
			} else {
				n.Apply(podsynctest.Pod(podsynctest.Deleting(time.Now(), 2*time.Second)))
			}
			time.Sleep(10 * time.Second)
			calls := n.Runtime.Calls()
			if got := len(calls.Of("CreateContainer", "StartContainer")); got != 0 {
				t.Errorf("containers were made:\n%s", calls)
			}
			if got := len(calls.Of("RunPodSandbox")); got != 1 {
				t.Errorf("%d sandboxes were made:\n%s", got, calls.Mutating())
			}
			if readySandboxes(t, n, "web-uid") != 0 {
				t.Errorf("the sandbox was not stopped:\n%s", calls.Mutating())
			}
			n.Delete("web-uid")
			n.WaitGone("web-uid")
		})
	}
}

// Put back long after everything was cleaned up, a static pod starts anew.
func TestCase_WRK_06_PutBackMuchLater(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick}, func(t *testing.T, n *podsynctest.Node) {
		for range 3 {
			n.Apply(podsynctest.Pod())
			n.WaitRunning("web-uid")
			n.Delete("web-uid")
			n.WaitGone("web-uid")
			time.Sleep(10 * time.Minute)
		}
	})
}

// What a former agent left running with the UID of a pod that a source has: the
// source's pod wins, whichever is seen first.
func TestCase_WRK_07_LeftoverOfTheSameUID(t *testing.T) {
	slow := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 5 * time.Second})}}
	start := func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod(podsynctest.Grace(30 * time.Second)))
		n.WaitRunning("web-uid")
		n.Stop()
		n.Runtime.ResetCalls()
	}
	adopted := func(t *testing.T, n *podsynctest.Node) {
		t.Helper()
		n.WaitRunning("web-uid")
		time.Sleep(5 * time.Minute)
		n.WaitRunning("web-uid")
		if calls := n.Runtime.Calls().Mutating(); len(calls) > 0 {
			t.Errorf("the pod was not simply adopted:\n%s", calls)
		}
	}
	bubbleNode(t, "source first", podsynctest.NodeOptions{Change: quick, Memory: slow}, func(t *testing.T, n *podsynctest.Node) {
		start(t, n)
		n.Start()
		adopted(t, n)
	})
	inBubble(t, "runtime first, source not seen", func(t *testing.T) {
		var src *late
		slow.Record = 1 << 18
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: slow, Change: func(c *node.Config) {
			quick(c)
			if src != nil {
				c.Sources = []podsync.Source{src}
			}
		}})
		start(t, n)
		src = newLate("file")
		n.Start()
		time.Sleep(5 * time.Minute)
		src.sets <- []*corev1.Pod{podsynctest.Pod(podsynctest.Grace(30 * time.Second))}
		adopted(t, n)
	})
	bubbleNode(t, "runtime first, being stopped", podsynctest.NodeOptions{Change: quick, Memory: slow}, func(t *testing.T, n *podsynctest.Node) {
		start(t, n)
		n.Delete("web-uid")
		n.Start()
		time.Sleep(time.Second)
		n.Apply(podsynctest.Pod(podsynctest.Grace(30 * time.Second)))
		time.Sleep(time.Minute)
		n.WaitRunning("web-uid")
		once(t, n.Runtime)
		if made := n.Runtime.Calls().Of("RunPodSandbox"); len(made) > 1 || readySandboxes(t, n, "web-uid") != 1 {
			t.Errorf("more than one clean restart:\n%s", n.Runtime.Calls().Mutating())
		}
		if st := n.Status("web-uid"); !podsynctest.Ready(st) {
			t.Errorf("status: %+v", st)
		}
	})
}

// A pod that failed stays failed when its containers vanish before it is deleted.
func TestCase_STA_02_FailedStaysFailed(t *testing.T) {
	var mu sync.Mutex
	var phases []corev1.PodPhase
	sink := &statustest.Fake{PatchFunc: func(_ context.Context, r status.Record) error {
		mu.Lock()
		defer mu.Unlock()
		phases = append(phases, r.Status.Phase)
		return nil
	}}
	change := func(c *node.Config) { quick(c); c.StatusSinks = append(c.StatusSinks, sink) }
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: change, Memory: memory.Options{Rules: []memory.Rule{memory.Exits("app", 1)}}}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod(podsynctest.Restart(corev1.RestartPolicyNever)))
		n.Wait("web-uid", podsynctest.Phase(corev1.PodFailed))
		n.Runtime.Forget(func(memory.Container) bool { return true })
		check := func(when string) {
			t.Helper()
			time.Sleep(5 * time.Minute)
			st := n.Status("web-uid")
			if st.Phase != corev1.PodFailed || len(st.ContainerStatuses) != 1 || st.ContainerStatuses[0].State.Terminated == nil || st.ContainerStatuses[0].State.Terminated.ExitCode != 1 {
				t.Errorf("%s: phase %s, containers %+v", when, st.Phase, st.ContainerStatuses)
			}
		}
		check("containers gone")
		n.Restart()
		check("agent restarted")
		// A deleted pod is forgotten once its last status was sent.
		n.Apply(podsynctest.Pod(podsynctest.Restart(corev1.RestartPolicyNever), podsynctest.Deleting(time.Now(), time.Second)))
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		i := slices.Index(phases, corev1.PodFailed)
		if i < 0 || slices.ContainsFunc(phases[i:], func(p corev1.PodPhase) bool { return p != corev1.PodFailed }) {
			t.Errorf("phases that were sent: %q; want none but Failed after the first Failed", phases)
		}
		if made := n.Runtime.Calls().Of("CreateContainer"); len(made) != 1 {
			t.Errorf("containers made:\n%s", made)
		}
	})
}

// An evicted pod is not called Failed before its containers have ended.
func TestCase_STA_06_FailedOnlyWhenNothingRuns(t *testing.T) {
	slow := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 10 * time.Second})}}
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick, Memory: slow}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod(podsynctest.Grace(30 * time.Second)))
		n.WaitRunning("web-uid")
		killed := make(chan error, 1)
		go func() {
			killed <- n.Agent().Kill(t.Context(), "web-uid", podsync.KillOptions{Evicted: true, Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"})
		}()
		time.Sleep(9 * time.Second)
		if st := n.Status("web-uid"); st.Phase != corev1.PodRunning || st.Reason != "" {
			t.Errorf("while the container stops: %s %s", st.Phase, st.Reason)
		}
		must(t, <-killed)
		st := n.Wait("web-uid", podsynctest.Phase(corev1.PodFailed))
		if st.Reason != "Evicted" || st.Message != "low on memory" || podsynctest.Ready(st) {
			t.Errorf("at the end: %+v", st)
		}
		for _, c := range st.Conditions {
			if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status != corev1.ConditionFalse {
				t.Errorf("condition %s is %s", c.Type, c.Status)
			}
		}
	})
}

// A sandbox whose network cannot be taken down is tried again and not removed
// before; other pods, also of the same name, go on.
func TestCase_NET_11_TeardownFails(t *testing.T) {
	inBubble(t, "node", func(t *testing.T) {
		var mu sync.Mutex
		failed := 0
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: quick, Memory: memory.Options{
			Intercept: func(_ context.Context, c memory.Call) memory.Fault {
				mu.Lock()
				defer mu.Unlock()
				if c.Method != "StopPodSandbox" || c.PodUID != "web-uid" || failed >= 5 {
					return memory.Fault{}
				}
				failed++
				return memory.Fault{Err: errors.New(`failed to destroy network for sandbox "x": cni plugin not initialized`)}
			},
		}})
		n.Apply(podsynctest.Pod(podsynctest.Grace(time.Second)))
		n.WaitRunning("web-uid")
		n.Delete("web-uid")
		n.Apply(podsynctest.Pod(podsynctest.UID("second")), podsynctest.Pod(podsynctest.Named("other")))
		n.WaitRunning("second")
		n.WaitRunning("other-uid")
		n.WaitGone("web-uid")
		var stops []string
		for _, c := range n.Runtime.Calls() {
			if c.PodUID != "web-uid" {
				continue
			}
			switch {
			case c.Method == "StopPodSandbox" && c.Err != nil:
				stops = append(stops, "failed")
			case c.Method == "StopPodSandbox":
				stops = append(stops, "stopped")
			case c.Method == "RemovePodSandbox":
				stops = append(stops, "removed")
			}
		}
		if i := slices.Index(stops, "removed"); i < 0 || !slices.Contains(stops[:i], "stopped") || len(stops) < 7 {
			t.Errorf("stops and removals: %q; want five failures, a stop, then the removal", stops)
		}
	})
}

// Init containers that somebody pruned are not run again under a live pod.
func TestCase_RUN_03_PrunedInitContainers(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick, Memory: scripts}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(rich("web"))
		n.WaitRunning("web-uid")
		n.Runtime.ResetCalls()
		must(t, n.Runtime.RemoveContainer(t.Context(), container(t, n, "setup").ID))
		time.Sleep(5 * time.Minute)
		n.WaitRunning("web-uid")
		if made := n.Runtime.Calls().Of("CreateContainer", "StartContainer", "StopContainer", "RunPodSandbox"); len(made) > 0 {
			t.Errorf("done after the removal of a finished init container:\n%s", made)
		}
		st := n.Status("web-uid")
		i := slices.IndexFunc(st.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == "setup" })
		if i < 0 || st.InitContainerStatuses[i].State.Terminated == nil || st.InitContainerStatuses[i].State.Terminated.ExitCode != 0 {
			t.Errorf("init container statuses: %+v", st.InitContainerStatuses)
		}
	})
}

// Sidecars stop after the others, in reverse, and all within the pod's grace.
func TestCase_RUN_07_SidecarsStopLast(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    memory.Behaviour
		took time.Duration
	}{
		{"a needs 5 s", memory.Behaviour{TermDelay: 5 * time.Second}, 5 * time.Second},
		{"a ignores TERM", memory.Behaviour{IgnoreTERM: true}, 30 * time.Second},
	} {
		bubbleNode(t, tt.name, podsynctest.NodeOptions{Change: quick, Memory: memory.Options{Rules: []memory.Rule{memory.Named("a", tt.a)}}}, func(t *testing.T, n *podsynctest.Node) {
			n.Apply(podsynctest.Pod(podsynctest.Grace(30*time.Second),
				podsynctest.Sidecar(corev1.Container{Name: "s1"}), podsynctest.Sidecar(corev1.Container{Name: "s2"}),
				podsynctest.Container(corev1.Container{Name: "a"}), podsynctest.Container(corev1.Container{Name: "b"})))
			n.WaitRunning("web-uid")
			n.Runtime.ResetCalls()
			began := time.Now()
			n.Delete("web-uid")
			time.Sleep(2 * time.Minute)
			n.WaitGone("web-uid")
			ended := map[string]time.Time{}
			started := map[string]time.Time{}
			for _, c := range n.Runtime.Calls().Of("StopContainer", "StopPodSandbox") {
				key := c.Container
				if c.Method == "StopPodSandbox" {
					key = "sandbox"
				}
				if _, seen := started[key]; !seen {
					started[key], ended[key] = c.Time, c.Ended
				}
			}
			for _, pair := range [][2]string{{"a", "s2"}, {"b", "s2"}, {"s2", "s1"}, {"s1", "sandbox"}, {"a", "sandbox"}} {
				if started[pair[1]].Before(ended[pair[0]]) {
					t.Errorf("%s was stopped before %s had ended:\n%s", pair[1], pair[0], n.Runtime.Calls().Mutating())
				}
			}
			if took := ended["s1"].Sub(began); took < tt.took || took > 36*time.Second {
				t.Errorf("the stop took %v", took)
			}
		})
	}
}

// The waits between the restarts of a container that keeps crashing.
func TestCase_RUN_16_CrashLoop(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Exits("app", 1)}}}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod())
		time.Sleep(4 * time.Minute)
		st := n.Status("web-uid")
		if c := st.ContainerStatuses[0]; c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 1 {
			t.Errorf("while it waits: %+v", c)
		}
		time.Sleep(20 * time.Minute)
		var waits []time.Duration
		starts := n.Runtime.Calls().Of("StartContainer")
		for i, c := range starts[1:] {
			waits = append(waits, c.Time.Sub(starts[i].Ended).Round(time.Second))
		}
		want := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300, 300}
		for i, w := range want[:min(len(want), len(waits))] {
			if d := waits[i] - w*time.Second; d < 0 || d > 2*time.Second {
				t.Errorf("waits %v, want about %v seconds", waits, want)
				break
			}
		}
		if len(waits) < 7 {
			t.Errorf("only %d restarts in 24 min: %v", len(waits), waits)
		}
		count := n.Status("web-uid").ContainerStatuses[0].RestartCount
		n.Restart()
		time.Sleep(time.Minute)
		if got := n.Status("web-uid").ContainerStatuses[0].RestartCount; got < count {
			t.Errorf("restart count went from %d to %d with the agent's restart", count, got)
		}
	})
}

// The sandbox is stopped after every StopContainer has returned.
func TestCase_PRB_04_SandboxStopsLast(t *testing.T) {
	slow := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 200 * time.Second})}}
	bubbleNode(t, "node", podsynctest.NodeOptions{Memory: slow}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod(podsynctest.Grace(300 * time.Second)))
		n.WaitRunning("web-uid")
		n.Delete("web-uid")
		time.Sleep(10 * time.Minute)
		n.WaitGone("web-uid")
		stops, boxes := n.Runtime.Calls().Of("StopContainer"), n.Runtime.Calls().Of("StopPodSandbox")
		if len(stops) != 1 || len(boxes) == 0 || boxes[0].Time.Before(stops[0].Ended) || stops[0].Ended.Sub(stops[0].Time) < 199*time.Second {
			t.Errorf("calls:\n%s", n.Runtime.Calls().Mutating())
		}
	})
}

// While a source has not reported, nothing is taken for an orphan.
func TestCase_REC_02_OrphansWaitForASourceThatIsDown(t *testing.T) {
	inBubble(t, "node", func(t *testing.T) {
		api := newLate("api")
		first := true
		mem := scripts
		mem.Record = 1 << 18
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: mem, Change: func(c *node.Config) {
			quick(c)
			if !first {
				c.Sources = append(c.Sources, api)
			}
		}})
		n.Apply(rich("web"))
		n.WaitRunning("web-uid")
		n.Stop()
		first = false
		n.Delete("web-uid")
		n.Runtime.ResetCalls()
		n.Start()
		time.Sleep(5 * time.Minute)
		if calls := n.Runtime.Calls().Mutating(); len(calls) > 0 {
			t.Errorf("before every source was seen:\n%s", calls)
		}
		if len(n.Leftovers("web-uid")) == 0 {
			t.Error("what the pod holds is gone before every source was seen")
		}
		api.sets <- nil
		n.WaitGone("web-uid")
		if l := n.Runtime.Leftovers(); len(l) > 0 {
			t.Errorf("left over: %q", l)
		}
	})
}

// State files that cannot be read hold up neither the start nor the stop of pods.
func TestCase_REC_04_CorruptStatusFiles(t *testing.T) {
	for name, content := range map[string]string{"truncated": `{"uid":"web-uid","sta`, "empty": "", "zeros": "\x00\x00\x00\x00", "other JSON": `[1,2]`} {
		bubbleNode(t, name, podsynctest.NodeOptions{Memory: scripts, Change: quick}, func(t *testing.T, n *podsynctest.Node) {
			n.Apply(rich("web"), podsynctest.Pod(podsynctest.Named("other"), podsynctest.Grace(time.Second)))
			n.WaitRunning("web-uid")
			n.WaitRunning("other-uid")
			n.Stop()
			dir := filepath.Join(n.Root, "status")
			entries, err := os.ReadDir(dir)
			must(t, err)
			for _, e := range entries {
				if strings.Contains(e.Name(), "web") {
					must(t, os.WriteFile(filepath.Join(dir, e.Name()), []byte(content), 0o600))
				}
			}
			must(t, os.WriteFile(filepath.Join(dir, "stranger.json"), []byte(content), 0o600))
			n.Runtime.ResetCalls()
			n.Start()
			n.WaitRunning("web-uid")
			n.WaitRunning("other-uid")
			if calls := n.Runtime.Calls().Of("CreateContainer", "StopContainer", "RunPodSandbox"); len(calls) > 0 {
				t.Errorf("pods were disturbed:\n%s", calls)
			}
			n.Delete("web-uid", "other-uid")
			n.WaitGone("web-uid")
			n.WaitGone("other-uid")
		})
	}
}

// The runtime comes back with one container as it was, one it lost track of and
// one it does not have any more.
func TestCase_REC_06_RuntimeComesBackChanged(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(podsynctest.Pod(podsynctest.Grace(5*time.Second), podsynctest.Container(corev1.Container{Name: "app"}),
			podsynctest.Container(corev1.Container{Name: "lost"}), podsynctest.Container(corev1.Container{Name: "missing"})))
		n.WaitRunning("web-uid")
		kept := container(t, n, "app").ID
		n.Runtime.Down()
		n.Runtime.SetUnknown(func(c memory.Container) bool { return c.Name == "lost" })
		n.Runtime.Forget(func(c memory.Container) bool { return c.Name == "missing" })
		time.Sleep(30 * time.Second)
		if st := n.Status("web-uid"); st.Phase != corev1.PodRunning {
			t.Errorf("phase while the runtime is away: %s", st.Phase)
		}
		n.Runtime.ResetCalls()
		n.Runtime.Up()
		time.Sleep(2 * time.Minute)
		n.WaitRunning("web-uid")
		once(t, n.Runtime)
		if c := container(t, n, "app"); c.ID != kept || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Error("the container that ran on was replaced")
		}
		calls := n.Runtime.Calls()
		stop, create := index(calls, "StopContainer default/web/lost"), index(calls, "CreateContainer default/web/lost")
		if stop < 0 || create < 0 || create < stop {
			t.Errorf("lost was not stopped before it was made again:\n%s", calls.Mutating())
		}
		if i := lastIndex(calls, "CreateContainer default/web/missing"); i < 0 || i != index(calls, "CreateContainer default/web/missing") {
			t.Errorf("missing was not made again once:\n%s", calls.Mutating())
		}
	})
}

// A required key that is missing keeps the pod waiting, and brings it up when it
// comes; an optional one holds nothing up.
func TestCase_VOL_04_ObjectsComeLater(t *testing.T) {
	inBubble(t, "node", func(t *testing.T) {
		var store *objects.Memory
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{
			Change: func(c *node.Config) {
				quick(c)
				store = &objects.Memory{}
				c.Objects = store
			},
		})
		store.Bus = n.Node().Bus
		optional := true
		volume := func(opt *bool) podsynctest.PodOption {
			return podsynctest.Volume(corev1.Volume{Name: "cfg", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Optional: opt, Items: []corev1.KeyToPath{{Key: "app", Path: "app"}},
			}}}, "/cfg")
		}
		n.Apply(podsynctest.Pod(podsynctest.Named("required"), volume(nil)), podsynctest.Pod(podsynctest.Named("optional"), volume(&optional)))
		n.WaitRunning("optional-uid")
		time.Sleep(time.Second)
		if st := n.Status("required-uid"); st.Phase != corev1.PodPending || len(n.Runtime.Calls().Of("RunPodSandbox")) != 1 {
			t.Errorf("without its config map: %s\n%s", st.Phase, n.Runtime.Calls().Mutating())
		}
		must(t, store.Put(&corev1.ConfigMap{ObjectMeta: podsynctest.Pod(podsynctest.Named("settings")).ObjectMeta, Data: map[string]string{"other": "x"}}))
		time.Sleep(time.Second)
		if st := n.Status("required-uid"); st.Phase != corev1.PodPending {
			t.Errorf("without its key: %s", st.Phase)
		}
		if !slices.ContainsFunc(n.Events.All(), func(e string) bool {
			return strings.HasPrefix(e, "default/required") && strings.Contains(e, "FailedMount") && strings.Contains(e, "app")
		}) {
			t.Errorf("no event names the key: %q", n.Events.All())
		}
		must(t, store.Put(&corev1.ConfigMap{ObjectMeta: podsynctest.Pod(podsynctest.Named("settings")).ObjectMeta, Data: map[string]string{"app": "1"}}))
		n.WaitRunning("required-uid")
		file := filepath.Join(n.Root, "pods", "optional-uid", "volumes", "kubernetes.io~configmap", "cfg", "app")
		time.Sleep(3 * time.Minute)
		if data, err := os.ReadFile(file); err != nil || string(data) != "1" {
			t.Errorf("the optional file has not appeared: %q, %v", data, err)
		}
	})
}

// Hostile names become nothing, whatever source they come from.
func TestCase_SEC_01_HostileNamesTouchNothing(t *testing.T) {
	bubbleNode(t, "node", podsynctest.NodeOptions{Change: quick}, func(t *testing.T, n *podsynctest.Node) {
		above := filepath.Dir(n.Root)
		before := tree(t, above)
		hostile := map[string]func(p *corev1.Pod){
			"name":           func(p *corev1.Pod) { p.Name = "../../etc" },
			"namespace":      func(p *corev1.Pod) { p.Namespace = "../x" },
			"uid":            func(p *corev1.Pod) { p.UID = "../../../tmp/x" },
			"uid up":         func(p *corev1.Pod) { p.UID = ".." },
			"container name": func(p *corev1.Pod) { p.Spec.Containers[0].Name = "../c" },
			"upper case":     func(p *corev1.Pod) { p.Name = "Web_App" },
			"volume name": func(p *corev1.Pod) {
				podsynctest.Volume(corev1.Volume{Name: "../v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, "/v")(p)
			},
			"subPath": func(p *corev1.Pod) {
				podsynctest.Volume(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, "/v")(p)
				p.Spec.Containers[0].VolumeMounts[0].SubPath = "../../etc"
			},
			"hostPath": func(p *corev1.Pod) {
				podsynctest.Volume(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log/../../etc"}}}, "/v")(p)
			},
			"item path": func(p *corev1.Pod) {
				podsynctest.Volume(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: []corev1.KeyToPath{{Key: "k", Path: "../x"}},
				}}}, "/v")(p)
			},
			"item path dots": func(p *corev1.Pod) {
				podsynctest.Volume(corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Items: []corev1.KeyToPath{{Key: "k", Path: "..x"}},
				}}}, "/v")(p)
			},
		}
		var pods []*corev1.Pod
		for name, change := range hostile {
			p := podsynctest.Pod(podsynctest.Named("bad-" + strings.ReplaceAll(strings.ToLower(name), " ", "-")))
			change(p)
			pods = append(pods, p)
		}
		n.Apply(append(pods, podsynctest.Pod(podsynctest.Named("good")))...)
		n.WaitRunning("good-uid")
		time.Sleep(5 * time.Minute)
		for _, c := range n.Runtime.Calls().Mutating() {
			if c.Method != "PullImage" && c.PodUID != "good-uid" {
				t.Errorf("call for a hostile pod: %v", c)
			}
		}
		after := tree(t, above)
		for path := range after {
			if !before[path] && !strings.HasPrefix(path, n.Root+string(filepath.Separator)) {
				t.Errorf("made outside of the root: %s", path)
			}
			if rel, err := filepath.Rel(n.Root, path); err == nil && strings.Contains(rel, "bad-") {
				t.Errorf("made for a hostile pod: %s", path)
			}
		}
		if _, err := os.Stat("/tmp/x"); err == nil && !before["/tmp/x"] {
			t.Error("/tmp/x was made")
		}
	})
}

// tree is every path below dir.
func tree(t *testing.T, dir string) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		paths[path] = true
		return err
	}))
	return paths
}

// A seccomp profile that is not named never means no profile at all.
func TestCase_SEC_03_NoProfileIsNotUnconfined(t *testing.T) {
	profile := func(s string) *string { return &s }
	for name, p := range map[string]*string{"missing": nil, "empty": profile(""), "traversal": profile("../../x"), "absolute": profile("/abs")} {
		bubbleNode(t, name, podsynctest.NodeOptions{Change: quick}, func(t *testing.T, n *podsynctest.Node) {
			pod := podsynctest.Pod()
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: p},
			}
			n.Apply(pod, podsynctest.Pod(podsynctest.Named("good")))
			n.WaitRunning("good-uid")
			time.Sleep(5 * time.Minute)
			if made := n.Runtime.Calls().Of("CreateContainer").Where(func(c memory.Call) bool { return c.PodUID == "web-uid" }); len(made) > 0 {
				t.Errorf("the container was made:\n%s", made)
			}
		})
	}
}
