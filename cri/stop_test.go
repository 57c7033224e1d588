package cri_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// stopTimes runs the stop stage once and returns when, in seconds, each
// container had stopped and when the sandbox was asked to.
func (n *node) stopTimes(pod *corev1.Pod, grace time.Duration) map[string]int {
	n.t.Helper()
	began := time.Now()
	times := map[string]int{}
	sec := func(at time.Time) int { return int(at.Sub(began).Round(time.Second) / time.Second) }
	n.mem.ResetCalls()
	out := n.rt.StopContainers().Run(n.t.Context(), n.newSync(pod, podsync.WithGrace(grace)))
	if out.Stops() {
		n.t.Errorf("stop: %v", out)
	}
	times["all"] = sec(time.Now())
	for _, c := range n.mem.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			times[c.Name] = sec(c.FinishedAt)
		}
	}
	return times
}

// TestCase_RUN_07: sidecars stop after the others, the last first, within one grace.
func TestCase_RUN_07(t *testing.T) {
	t.Parallel()
	slow := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 5 * time.Second}),
		memory.Named("s1", memory.Behaviour{TermDelay: time.Second}), memory.Named("s2", memory.Behaviour{TermDelay: time.Second})}}
	deaf := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true}),
		memory.Named("s1", memory.Behaviour{IgnoreTERM: true}), memory.Named("s2", memory.Behaviour{IgnoreTERM: true})}}
	initial := memory.Options{Rules: []memory.Rule{memory.Named("i", memory.Behaviour{TermDelay: 3 * time.Second})}}
	pod := podsynctest.Pod(sidecar("s1"), sidecar("s2"), container("b"))
	for _, tt := range []struct {
		name string
		o    memory.Options
		pod  *corev1.Pod
		want map[string]int
	}{
		{"in turn", slow, pod, map[string]int{"app": 5, "b": 0, "s2": 6, "s1": 7, "all": 7}},
		{"the app uses up the grace", deaf, pod, map[string]int{"app": 30, "b": 0, "s2": 32, "s1": 32, "all": 32}},
		{"still initialising", initial, podsynctest.Pod(sidecar("s1"), initC("i"), sidecar("s2")), map[string]int{"i": 3, "s1": 3, "all": 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, tt.o, func(t *testing.T, n *node) {
				n.settle(tt.pod)
				if d := cmp.Diff(tt.want, n.stopTimes(tt.pod, 30*time.Second)); d != "" {
					t.Errorf("seconds (-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestCase_PRB_04: the sandbox stops only after every StopContainer returned.
func TestCase_PRB_04(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{TermDelay: 200 * time.Second})}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		n.settle(pod)
		times := n.stopTimes(pod, 300*time.Second)
		if times["app"] != 200 || times["all"] != 200 {
			t.Errorf("seconds: %v", times)
		}
		if d := cmp.Diff([]string{"StopContainer", "StopContainer", "StopPodSandbox"}, n.mutations()); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
	})
}

// TestCase_WRK_02: a shorter grace cuts the stop short and begins it again.
func TestCase_WRK_02(t *testing.T) {
	t.Parallel()
	deaf := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true})}}
	bubble(t, deaf, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.settle(pod)
		began := time.Now()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(podsync.ErrGraceShrunk) })
		out := n.rt.StopContainers().Run(ctx, n.newSync(pod, podsync.WithGrace(120*time.Second)))
		if out.Kind() != podsync.KindCanceled || time.Since(began) != 10*time.Second {
			t.Fatalf("got %v after %s", out, time.Since(began))
		}
		n.stop(pod, 60*time.Second)
		if d := time.Since(began); d != 70*time.Second {
			t.Errorf("the pod stopped after %s, want 1m10s", d)
		}
		var timeouts []int64
		for _, c := range n.mem.Calls() {
			if r, ok := c.Request.(*runtimeapi.StopContainerRequest); ok {
				timeouts = append(timeouts, r.Timeout)
			}
		}
		if d := cmp.Diff([]int64{120, 60}, timeouts); d != "" {
			t.Errorf("timeouts (-want +got):\n%s", d)
		}
	})
}

// TestStopGoesOnOnTheSameClock: a stop that failed is tried again with what is
// left of its grace, and a hook that had ended is not run again.
func TestStopGoesOnOnTheSameClock(t *testing.T) {
	t.Parallel()
	hooks := 0
	o := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true, Exec: func(context.Context, []string) memory.ExecResult {
		hooks++
		return memory.ExecResult{Duration: 4 * time.Second}
	}})}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "app", Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}}}))
		n.settle(pod)
		began := time.Now()
		n.mem.SetIntercept(memory.Chain(
			memory.Times(5, memory.FailCall("StopContainer", status.Error(codes.Unavailable, "away"))),
			memory.Times(5, memory.FailCall("StopPodSandbox", status.Error(codes.Unavailable, "away")))))
		n.stop(pod, 30*time.Second)
		if d := time.Since(began); d < 30*time.Second || d > 33*time.Second {
			t.Errorf("the pod stopped after %s", d)
		}
		if hooks != 1 {
			t.Errorf("the hook ran %d times", hooks)
		}
	})
}

// TestCase_NET_11: the sandbox's network cannot be torn down for a while.
func TestCase_NET_11(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`failed to destroy network for sandbox "x": cni plugin not initialized`,
		`remove netns: unlinkat /var/run/netns/x: device or resource busy`} {
		bubble(t, memory.Options{}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod()
			n.settle(pod)
			n.mem.ResetCalls()
			n.mem.SetIntercept(memory.Times(5, memory.FailCall("StopPodSandbox", status.Error(codes.Unknown, text))))
			for range 5 {
				out := n.rt.StopContainers().Run(t.Context(), n.newSync(pod))
				if out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonFailedKillPod || !strings.Contains(out.Message(), text) {
					t.Errorf("got %v", out)
				}
			}
			n.remove(pod)
			m := n.mutations()
			if last := slices.Index(m, "RemovePodSandbox"); last < 0 || slices.Contains(m[last:], "StopPodSandbox") {
				t.Errorf("calls: %v", m)
			}
			if l := n.mem.Leftovers(); len(l) > 0 {
				t.Errorf("left over: %v", l)
			}
		})
	}
}

// TestPreStop: the hook runs within the grace and its time is taken off.
func TestPreStop(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		result memory.ExecResult
		want   int
		event  string
	}{
		{"takes its time", memory.ExecResult{Duration: 7 * time.Second}, 20, ""},
		{"fails", memory.ExecResult{ExitCode: 3, Stderr: []byte("secret")}, 20, "failed"},
		{"never ends", memory.ExecResult{Duration: time.Hour}, 22, "did not end within"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true,
				Exec: func(context.Context, []string) memory.ExecResult { return tt.result }})}}
			bubble(t, o, func(t *testing.T, n *node) {
				pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "app", Lifecycle: &corev1.Lifecycle{
					PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}}}))
				n.settle(pod)
				n.events.reset()
				if times := n.stopTimes(pod, 20*time.Second); times["all"] != tt.want {
					t.Errorf("seconds: %v, want %d", times, tt.want)
				}
				if tt.event == "" && n.events.has(cri.ReasonFailedPreStopHook, "") || !n.events.has(cri.ReasonFailedPreStopHook, tt.event) && tt.event != "" {
					t.Errorf("events: %v", n.events.all)
				}
			})
		})
	}
}

func TestVerifyStopped(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		if out := n.rt.StopContainers().Run(t.Context(), n.newSync(pod)); out.Kind() != podsync.KindSkip {
			t.Errorf("a pod that never ran: %v", out)
		}
		n.settle(pod)
		out := n.rt.VerifyStopped().Run(t.Context(), n.newSync(pod))
		if out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonContainersStillRunning || !strings.Contains(out.Message(), "app (") {
			t.Errorf("a running pod: %v", out)
		}
		n.mem.SetIntercept(memory.Times(1, memory.FailCall("ListContainers", status.Error(codes.Unavailable, "away"))))
		if out := n.rt.VerifyStopped().Run(t.Context(), n.newSync(pod)); out.Kind() != podsync.KindRetry {
			t.Errorf("a runtime that does not answer: %v", out)
		}
		n.stop(pod, time.Second)
	})
}

// TestCleanerStopsOrphans: a pod that nobody knows is stopped and removed, by
// its labels alone.
func TestCleanerStopsOrphans(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true})}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(sidecar("s"))
		n.until(pod, "start", n.runs("app", "s"))
		n.restart()
		uids, err := n.rt.Cleaner().Pods(t.Context())
		if err != nil || len(uids) != 1 || uids[0] != pod.UID {
			t.Fatalf("pods: %v, %v", uids, err)
		}
		n.mem.SetIntercept(memory.Times(1, memory.FailCall("RemoveContainer", status.Error(codes.Unavailable, "away"))))
		if err := n.rt.Cleaner().Remove(t.Context(), pod.UID); err == nil {
			t.Error("an error of the runtime is not told")
		}
		for range 2 {
			if err := n.rt.Cleaner().Remove(t.Context(), pod.UID); err != nil {
				t.Error(err)
			}
		}
		if l := n.mem.Leftovers(); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
	})
}

func TestCleanerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		n.settle(podsynctest.Pod())
		n.opts = func(o *cri.Options) { o.Owner = "another" }
		n.restart()
		if uids, err := n.rt.Cleaner().Pods(t.Context()); err != nil || len(uids) > 0 {
			t.Errorf("pods: %v, %v", uids, err)
		}
		if pods, err := n.rt.Monitor().Pods(t.Context()); err != nil || len(pods) > 0 {
			t.Errorf("pods: %v, %v", pods, err)
		}
	})
}

// A container's link goes with its log, also where a long name left no room in
// the link's for the container's id; links of others stay.
func TestCollectRemovesLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web", strings.Repeat("n", 130)} {
		links := t.TempDir()
		foreign := filepath.Join(links, "foreign.log")
		if err := os.Symlink("/nowhere", foreign); err != nil {
			t.Fatal(err)
		}
		o := memory.Options{Rules: []memory.Rule{memory.FailsFirst("app", 2, 1, memory.Behaviour{})}}
		bubbleWith(t, o, func(o *cri.Options) { o.LogLinks = links }, func(t *testing.T, n *node) {
			pod := podsynctest.Pod(podsynctest.Named(name), podsynctest.UID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
			pod.Namespace = strings.Repeat("s", len(name)*55/130) // with the longest log directory that can be
			n.until(pod, "the third start", n.runs("app"))
			if err := n.rt.Collect(t.Context(), cri.GC{KeepPerContainer: -1}); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(links)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, e := range entries {
				to, err := os.Readlink(filepath.Join(links, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, filepath.Base(to))
			}
			slices.Sort(left)
			if d := cmp.Diff([]string{"2.log", "nowhere"}, left); d != "" {
				t.Errorf("links of a pod with a name of %d characters: %s", len(name), d)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.FailsFirst("app", 4, 1, memory.Behaviour{})}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		n.until(pod, "the fifth start", n.runs("app"))
		if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.until(pod, "another start", func() bool { return strings.HasSuffix(n.show(), "app.5=RUNNING") })
		if err := n.rt.Collect(t.Context(), cri.GC{Keep: func(types.UID) bool { return false }}); err != nil {
			t.Fatal(err)
		}
		if len(n.mem.Containers()) != 6 {
			t.Errorf("a pod that is not kept was touched: %s", n.show())
		}
		if err := n.rt.Collect(t.Context(), cri.GC{}); err != nil {
			t.Fatal(err)
		}
		if want := "app.4=EXITED(143) app.5=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
		if err := n.rt.Collect(t.Context(), cri.GC{KeepPerContainer: -1}); err != nil {
			t.Fatal(err)
		}
		if want := "app.5=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
		if d := cmp.Diff([]string{"ready+"}, n.sandboxes(t)); d != "" {
			t.Error(d)
		}
		dir, err := filepath.Glob(filepath.Join(n.logs, "*", "app", "*"))
		if err != nil || len(dir) != 1 || filepath.Base(dir[0]) != "5.log" {
			t.Errorf("logs left: %v, %v", dir, err)
		}
		n.settle(pod)
		if want := "app.5=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}
