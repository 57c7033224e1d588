package cri_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func TestStart(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{Images: []memory.Image{{Ref: "busybox:1"}}}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "side"}))
		out := n.sync(t.Context(), pod)
		if d, again := out.RetryAfter(); out.Kind() != podsync.KindContinue || !again || d != 0 {
			t.Errorf("a run that started something ends in %v, again %v %v", out, again, d)
		}
		want := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "CreateContainer", "StartContainer"}
		if d := cmp.Diff(want, n.mutations()); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		if out := n.settle(pod); out.String() != "Continue" {
			t.Errorf("a pod that runs gives %v", out)
		}
		n.mem.ResetCalls()
		before := n.observe(pod)
		if out := n.settle(pod); out.String() != "Continue" {
			t.Errorf("a pod that runs gives %v", out)
		}
		if n.observe(pod) != before || len(n.mem.Calls()) > 0 {
			t.Errorf("nothing happened, and %d calls were made", len(n.mem.Calls()))
		}
		if d := cmp.Diff([]string{"app", "side"}, n.running()); d != "" {
			t.Error(d)
		}
		n.remove(pod)
		if l := n.mem.Leftovers(); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
	})
}

func initC(name string) podsynctest.PodOption {
	return podsynctest.Init(corev1.Container{Name: name})
}

func sidecar(name string) podsynctest.PodOption {
	return podsynctest.Sidecar(corev1.Container{Name: name})
}

func container(name string) podsynctest.PodOption {
	return podsynctest.Container(corev1.Container{Name: name})
}

func ephemeral(name, target string) podsynctest.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox:1"}, TargetContainerName: target})
	}
}

func TestInitContainersInOrder(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.Exits("i1", 0), memory.ExitsAfter("i2", 5*time.Second, 0)}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(initC("i1"), sidecar("s"), initC("i2"))
		n.until(pod, "the pod's start", n.runs("app", "s"))
		if want := "i1.0=EXITED(0) s.0=RUNNING i2.0=EXITED(0) app.0=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}

// TestCase_RUN_03: finished init containers that were pruned are not run again.
func TestCase_RUN_03(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.Exits("i1", 0)}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(initC("i1"))
		n.until(pod, "the pod's start", n.runs("app"))
		for _, c := range n.mem.Containers() {
			if c.Name == "i1" {
				if err := n.mem.RemoveContainer(t.Context(), c.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.settle(pod)
		if want := "app.0=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}

// TestCase_RUN_05: a container that was created and could not be started is
// made again, under Never too.
func TestCase_RUN_05(t *testing.T) {
	t.Parallel()
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
		bubble(t, memory.Options{Rules: []memory.Rule{memory.Exits("i1", 0)}}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod(podsynctest.Restart(policy), initC("i1"))
			n.mem.SetIntercept(memory.OnNth("StartContainer", 1, memory.Fault{Err: status.Error(codes.Internal, "out of luck")}))
			if out := n.sync(t.Context(), pod); out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonRunContainerError {
				t.Errorf("a failed start gives %v", out)
			}
			if w := n.observe(pod).Waiting["i1"]; w.Reason != cri.ReasonRunContainerError || w.Message != "out of luck" {
				t.Errorf("waiting: %+v", w)
			}
			n.until(pod, "the pod's start", n.runs("app"))
			if want := "i1.1=EXITED(0) app.0=RUNNING"; n.show() != want {
				t.Errorf("got %s, want %s", n.show(), want)
			}
			if w := n.observe(pod).Waiting; len(w) > 0 {
				n.settle(pod)
				if w = n.observe(pod).Waiting; len(w) > 0 {
					t.Errorf("still waiting: %v", w)
				}
			}
		})
	}
}

// TestCase_RUN_08: a new sandbox under OnFailure runs again what had not succeeded.
func TestCase_RUN_08(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.Exits("a", 0)}}
	for _, tt := range []struct {
		policy corev1.RestartPolicy
		want   string
	}{
		{corev1.RestartPolicyOnFailure, "a.0=EXITED(0) app.0=EXITED(143) app.1=RUNNING"},
		{corev1.RestartPolicyNever, "a.0=EXITED(0) app.0=EXITED(143)"},
	} {
		bubble(t, o, func(t *testing.T, n *node) {
			pod := podsynctest.Pod(podsynctest.Restart(tt.policy), container("a"))
			pod.Spec.Containers[0], pod.Spec.Containers[1] = pod.Spec.Containers[1], pod.Spec.Containers[0]
			n.settle(pod)
			if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
				t.Fatal(err)
			}
			n.rt.Monitor().Invalidate(pod.UID)
			n.settle(pod)
			if n.show() != tt.want {
				t.Errorf("%s: got %s, want %s", tt.policy, n.show(), tt.want)
			}
		})
	}
}

// TestCase_RUN_09: a container of unknown state is stopped before it is replaced.
func TestCase_RUN_09(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		n.settle(pod)
		n.mem.SetUnknown(func(c memory.Container) bool { return c.Name == "app" })
		n.rt.Monitor().Invalidate(pod.UID)
		n.mem.ResetCalls()
		n.mem.SetIntercept(memory.Times(1, memory.FailCall("StopContainer", status.Error(codes.Internal, "shim does not answer"))))
		if out := n.sync(t.Context(), pod); out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonFailedKillPod {
			t.Errorf("a failed stop gives %v", out)
		}
		if n.count("CreateContainer") > 0 {
			t.Error("a container was made although the old one may live")
		}
		n.settle(pod)
		if want := "app.0=EXITED(255) b.0=RUNNING app.1=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}

// TestCase_RUN_10: a postStart hook that fails ends its container, and nobody
// is shown what it printed.
func TestCase_RUN_10(t *testing.T) {
	t.Parallel()
	hook := func(context.Context, []string) memory.ExecResult {
		return memory.ExecResult{ExitCode: 1, Stdout: []byte("token=abc"), Stderr: []byte("token=abc")}
	}
	for _, tt := range []struct {
		policy corev1.RestartPolicy
		want   string
	}{
		{corev1.RestartPolicyNever, "app.0=EXITED(143)"},
		{corev1.RestartPolicyAlways, "app.0=EXITED(143) app.1=EXITED(143)"},
	} {
		bubble(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{Exec: hook})}}, func(t *testing.T, n *node) {
			pod := podsynctest.Pod(podsynctest.Restart(tt.policy), podsynctest.Container(corev1.Container{Name: "app", Lifecycle: &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}}))
			out := n.sync(t.Context(), pod)
			if w := n.observe(pod).Waiting["app"]; w.Reason != cri.ReasonPostStartHookError {
				t.Errorf("waiting: %+v after %v", w, out)
			}
			n.settle(pod)
			if n.show() != tt.want {
				t.Errorf("%s: got %s, want %s", tt.policy, n.show(), tt.want)
			}
			if !n.events.has(cri.ReasonFailedPostStartHook, "app") || !n.events.has(cri.ReasonKilling, "postStart") {
				t.Errorf("events: %v", n.events.all)
			}
			for _, e := range n.events.all {
				if strings.Contains(e, "token") {
					t.Errorf("an event shows the hook's output: %s", e)
				}
			}
			if tt.policy == corev1.RestartPolicyAlways {
				if w := n.observe(pod).Waiting["app"]; w.Reason != cri.ReasonCrashLoopBackOff {
					t.Errorf("waiting: %+v", w)
				}
			}
		})
	}
}

// TestCase_RUN_16: restarts come after 0, 10, 20, … 300 s, measured from the
// exit; a long run starts over; a new process does too but keeps the count.
func TestCase_RUN_16(t *testing.T) {
	t.Parallel()
	const long = 10*time.Minute + 30*time.Second
	crash := memory.Behaviour{Exits: true, ExitCode: 1}
	o := memory.Options{NoLogs: true, Script: func(c memory.Container) memory.Behaviour {
		if c.Attempt == 8 {
			return memory.Behaviour{RunFor: long, ExitCode: 1}
		}
		return crash
	}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod()
		delays := func(count int) []int {
			n.until(pod, "crashes", func() bool { return len(n.mem.Containers()) > count })
			var out []int
			cs := n.mem.Containers()
			for i := 1; i <= count; i++ {
				out = append(out, int(cs[i].CreatedAt.Sub(cs[i-1].FinishedAt).Round(time.Second)/time.Second))
			}
			return out
		}
		got := delays(8)
		if d := cmp.Diff([]int{0, 10, 20, 40, 80, 160, 300, 300}, got); d != "" {
			t.Errorf("delays (-want +got):\n%s", d)
		}
		got = delays(11)[8:]
		if d := cmp.Diff([]int{0, 10, 20}, got); d != "" {
			t.Errorf("delays after a long run (-want +got):\n%s", d)
		}
		n.settle(pod)
		if w := n.observe(pod).Waiting["app"]; w.Reason != cri.ReasonCrashLoopBackOff || !strings.Contains(w.Message, "back-off 40s") {
			t.Errorf("waiting: %+v", w)
		}
		kept := n.rt.Backoffs()
		n.restart()
		got = delays(13)[11:]
		if d := cmp.Diff([]int{0, 10}, got); d != "" {
			t.Errorf("delays after a restart of the agent (-want +got):\n%s", d)
		}
		if last := n.mem.Containers()[13]; last.Attempt != 13 {
			t.Errorf("the restart count is %d, want 13", last.Attempt)
		}
		n.restart()
		n.rt.RestoreBackoffs(kept)
		if got = delays(14)[13:]; got[0] != 40 {
			t.Errorf("with the backoff kept the delay is %d s, want 40", got[0])
		}
	})
}

// TestCase_RUN_19: what restarts a container and what does not.
func TestCase_RUN_19(t *testing.T) {
	t.Parallel()
	never := podsynctest.Restart(corev1.RestartPolicyNever)
	bubble(t, memory.Options{Rules: []memory.Rule{memory.Exits("d", 1)}}, func(t *testing.T, n *node) {
		n.settle(podsynctest.Pod(never))
		n.settle(podsynctest.Pod(never, func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }))
		if want := "app.0=RUNNING"; n.show() != want {
			t.Errorf("b: got %s, want %s", n.show(), want)
		}
		n.settle(podsynctest.Pod(never, ephemeral("d", "app")))
		n.settle(podsynctest.Pod(never, ephemeral("d", "app")))
		if want := "app.0=RUNNING d.0=EXITED(1)"; n.show() != want {
			t.Errorf("c: got %s, want %s", n.show(), want)
		}
		n.restart()
		n.settle(podsynctest.Pod(never, ephemeral("d", "app")))
		if want := "app.0=RUNNING d.0=EXITED(1)"; n.show() != want {
			t.Errorf("e: got %s, want %s", n.show(), want)
		}
		n.settle(podsynctest.Pod(never, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "busybox:2" }))
		if want := "app.0=EXITED(143) d.0=EXITED(1) app.1=RUNNING"; n.show() != want {
			t.Errorf("a: got %s, want %s", n.show(), want)
		}
		if !n.events.has(cri.ReasonKilling, "definition changed, will be restarted") {
			t.Errorf("events: %v", n.events.all)
		}
	})
}

func TestPullBackoffIsNoError(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{RegistryOnly: true}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "b", Image: "nowhere/at:all"}))
		pod.Spec.Containers[0].Image = "busybox:1"
		if err := n.mem.AddImage(memory.Image{Ref: "busybox:1"}); err != nil {
			t.Fatal(err)
		}
		out := n.settle(pod)
		if d, again := out.RetryAfter(); out.Kind() != podsync.KindContinue || !again || d <= 0 || d > 10*time.Second {
			t.Errorf("a pod whose image cannot be pulled gives %v, again %v %v", out, again, d)
		}
		if w := n.observe(pod).Waiting["b"].Reason; w != images.ReasonImagePullBackOff {
			t.Errorf("waiting reason %s", w)
		}
		if d := cmp.Diff([]string{"app"}, n.running()); d != "" {
			t.Error(d)
		}
	})
}

// TestConfigErrorConcernsItsContainerAlone: a secret that is missing keeps one
// container from starting.
func TestConfigErrorConcernsItsContainerAlone(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "app", Env: []corev1.EnvVar{{Name: "S", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k"}}}}}), container("b"))
		out := n.sync(t.Context(), pod)
		if out.Kind() != podsync.KindRetry || out.Reason() != cri.ReasonCreateContainerConfigError {
			t.Errorf("got %v", out)
		}
		if w := n.observe(pod).Waiting["app"].Reason; w != cri.ReasonCreateContainerConfigError {
			t.Errorf("waiting reason %s", w)
		}
		if d := cmp.Diff([]string{"b"}, n.running()); d != "" {
			t.Error(d)
		}
	})
}

func TestRestartAllContainers(t *testing.T) {
	t.Parallel()
	never := corev1.ContainerRestartPolicyNever
	o := memory.Options{Rules: []memory.Rule{memory.Exits("i1", 0)}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(initC("i1"), podsynctest.Container(corev1.Container{Name: "app", RestartPolicy: &never,
			RestartPolicyRules: []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}}), container("b"))
		n.until(pod, "the pod's start", n.runs("app", "b"))
		if err := n.mem.Exit(string(pod.UID), "app", 42); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		n.until(pod, "the second start", n.runs("app", "b"))
		if want := "i1.1=EXITED(0) app.1=RUNNING b.1=RUNNING"; n.show() != want {
			t.Errorf("got %s, want %s", n.show(), want)
		}
	})
}

// TestCase_RUN_18: an old link or a very long name never keeps a container from
// starting; a log directory that cannot be named is a clear error of that pod.
func TestCase_RUN_18(t *testing.T) {
	t.Parallel()
	links := t.TempDir()
	bubbleWith(t, memory.Options{}, func(o *cri.Options) { o.LogLinks = links }, func(t *testing.T, n *node) {
		long := podsynctest.Pod(podsynctest.Named(strings.Repeat("n", 253)), podsynctest.UID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
		long.Namespace = strings.Repeat("s", 63)
		out := n.sync(t.Context(), long)
		if out.Kind() != podsync.KindRetry || !strings.Contains(out.Message(), "log directory") {
			t.Errorf("a log directory that is too long gives %v", out)
		}
		pod := podsynctest.Pod()
		n.settle(pod)
		if d := cmp.Diff([]string{"app"}, n.running()); d != "" {
			t.Error(d)
		}
		entries, _ := os.ReadDir(links)
		if len(entries) != 1 {
			t.Fatalf("links: %v", entries)
		}
		if to, err := os.Readlink(filepath.Join(links, entries[0].Name())); err != nil || !strings.HasSuffix(to, "/app/0.log") {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		n.remove(pod)
		if entries, _ := os.ReadDir(links); len(entries) > 0 {
			t.Errorf("links left: %v", entries)
		}
		if entries, _ := os.ReadDir(n.logs); len(entries) > 0 {
			t.Errorf("logs left: %v", entries)
		}
	})
}

// TestOverWithoutEverRunning: a pod that may not begin again and lost its
// sandbox before a container ran fails, or it would stay pending for ever.
func TestOverWithoutEverRunning(t *testing.T) {
	t.Parallel()
	o := memory.Options{Rules: []memory.Rule{memory.ExitsAfter("i1", time.Minute, 0)}}
	bubble(t, o, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Restart(corev1.RestartPolicyNever), initC("i1"))
		n.settle(pod)
		time.Sleep(2 * time.Minute)
		if err := n.mem.KillSandbox(string(pod.UID)); err != nil {
			t.Fatal(err)
		}
		n.rt.Monitor().Invalidate(pod.UID)
		if out := n.settle(pod); out.Kind() != podsync.KindFail || out.Reason() != cri.ReasonPodSandboxLost {
			t.Errorf("got %v", out)
		}
	})
}

func TestStageContract(t *testing.T) {
	t.Parallel()
	podsynctest.Stage(t, podsynctest.StageCase{New: func(t *testing.T) podsync.Stage {
		mem := memory.New(memory.Options{})
		t.Cleanup(mem.Shutdown)
		rt, err := cri.New(cri.Options{Runtime: mem, Images: mem, Node: nodeWithLogs(t)})
		if err != nil {
			t.Fatal(err)
		}
		return rt.Sync()
	}})
}

func nodeWithLogs(t testing.TB) func() config.Node {
	dir := t.TempDir()
	return func() config.Node { return config.Node{LogsRoot: dir} }
}
