package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

var codes = []int32{0, 1, 42, 137}

func drawPod(t *rapid.T) *corev1.Pod {
	p := newPod(rapid.SampledFrom([]corev1.RestartPolicy{always, onFailure, never}).Draw(t, "policy"))
	container := func(kind string, i int, policies []corev1.ContainerRestartPolicy) corev1.Container {
		c := corev1.Container{Name: fmt.Sprintf("%s%d", kind, i), Image: "img"}
		if p := rapid.SampledFrom(policies).Draw(t, c.Name+" policy"); p != "" {
			c.RestartPolicy = &p
			if p != cAlways && rapid.Bool().Draw(t, c.Name+" has a rule") {
				c.RestartPolicyRules = []corev1.ContainerRestartRule{onExit(
					rapid.SampledFrom([]corev1.ContainerRestartRuleAction{restart, restartAll}).Draw(t, "action"),
					rapid.SampledFrom([]corev1.ContainerRestartRuleOnExitCodesOperator{in, notIn}).Draw(t, "operator"), 42)}
			}
		}
		if rapid.Bool().Draw(t, c.Name+" probed") {
			c.ReadinessProbe = &corev1.Probe{}
		}
		return c
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container("i", i, []corev1.ContainerRestartPolicy{"", cAlways, cNever, cOnFailure}))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, container("a", i, []corev1.ContainerRestartPolicy{"", "", cNever, cOnFailure, cAlways}))
	}
	if rapid.Bool().Draw(t, "gate") {
		with(p, gates("example.com/g"))
	}
	p.Generation = rapid.Int64Range(0, 3).Draw(t, "generation")
	p.Spec.HostNetwork = rapid.Bool().Draw(t, "host network")
	return p
}

func drawRuntime(t *rapid.T, pod *corev1.Pod) *podsync.RuntimePod {
	if rapid.IntRange(0, 9).Draw(t, "unobserved") == 0 {
		return &podsync.RuntimePod{}
	}
	r := inRuntime()
	for i := range rapid.IntRange(0, 2).Draw(t, "sandboxes") {
		r.sandbox(fmt.Sprintf("sb%d", i), rapid.Bool().Draw(t, "ready"), rapid.SampledFrom([]string{"", "10.0.0.1", "fd00::1"}).Draw(t, "ip"))
	}
	states := []podsync.ContainerState{
		podsync.ContainerCreated, podsync.ContainerRunning,
		podsync.ContainerExited, podsync.ContainerExited, podsync.ContainerUnknown,
	}
	for _, l := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range l {
			for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 3, rapid.ID).Draw(t, c.Name+" instances") {
				r.add(podsync.RuntimeContainer{
					ID: fmt.Sprintf("%s-%d", c.Name, id), Name: c.Name,
					SandboxID:    rapid.SampledFrom([]string{"sb0", "sb1"}).Draw(t, "sandbox"),
					State:        rapid.SampledFrom(states).Draw(t, "state"),
					RestartCount: rapid.IntRange(-1, 4).Draw(t, "restarts"),
					ExitCode:     rapid.SampledFrom(codes).Draw(t, "code"),
					Reason:       rapid.SampledFrom([]string{"", "Completed", "Error", "OOMKilled"}).Draw(t, "reason"),
					Message:      strings.Repeat("m", rapid.SampledFrom([]int{0, 1, 20000}).Draw(t, "message")),
					StartedAt:    t0, FinishedAt: t0.Add(time.Second),
				})
			}
			if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
				r.waits(c.Name, "CrashLoopBackOff", "back-off")
			}
		}
	}
	return r.done()
}

func drawInput(t *rapid.T, pod *corev1.Pod, now int) status.Input {
	in := status.Input{
		Pod: pod, Runtime: drawRuntime(t, pod), Now: at(now),
		Probed:  rapid.Bool().Draw(t, "prober"),
		HostIPs: rapid.SampledFrom([][]string{nil, {"192.0.2.1"}, {"2001:db8::1", "192.0.2.1"}}).Draw(t, "host"),
		Waiting: rapid.SampledFrom([]status.Waiting{{}, {Reason: "VolumesNotReady", Message: "v"}, {Message: "error", Stage: podsync.StageRuntime}}).Draw(t, "waiting"),
	}
	if rapid.IntRange(0, 2).Draw(t, "stopping") == 0 {
		in.Terminating = true
		in.Terminal = rapid.Bool().Draw(t, "terminal")
		in.Termination = rapid.SampledFrom([]podsync.Termination{
			{}, {Deleted: true}, {Phase: failed, Reason: "Evicted", Message: "m", Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
		}).Draw(t, "why")
	}
	return in
}

func anyRuns(r *podsync.RuntimePod) bool {
	for _, c := range r.Containers {
		if c.Running() {
			return true
		}
	}
	return false
}

// The life of a pod with whatever a runtime might show of it.
func TestProperty_Compute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		var prev *corev1.PodStatus
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			in := drawInput(t, pod, step)
			in.Previous = prev
			podBefore, prevBefore := pod.DeepCopy(), prev.DeepCopy()
			s := status.Compute(in)

			if diff := cmp.Diff(s, status.Compute(in)); diff != "" {
				t.Fatalf("equal input, unequal output:\n%s", diff)
			}
			if diff := cmp.Diff(podBefore, pod) + cmp.Diff(prevBefore, prev); diff != "" {
				t.Fatalf("the input was changed:\n%s", diff)
			}
			again := in
			again.Previous = &s
			if diff := cmp.Diff(s, status.Compute(again)); diff != "" {
				t.Fatalf("the same once more is not the same:\n%s", diff)
			}
			checkPhase(t, in, prev, s)
			checkMonotone(t, prev, s)
			prev = &s
		}
	})
}

func checkPhase(t *rapid.T, in status.Input, prev *corev1.PodStatus, s corev1.PodStatus) {
	wasTerminal := prev != nil && status.Terminal(prev.Phase)
	switch {
	case wasTerminal && phased(s) != phased(*prev):
		t.Fatalf("terminal phase was left: %+v, then %+v", phased(*prev), phased(s))
	case wasTerminal:
	case status.Terminal(s.Phase) && (!in.Terminal || anyRuns(in.Runtime)):
		t.Fatalf("phase %s while containers could run", s.Phase)
	case !status.Terminal(s.Phase) && in.Terminal && !anyRuns(in.Runtime):
		t.Fatalf("phase %s of a pod that is stopped", s.Phase)
	}
	if s.Phase == "" || len(s.ContainerStatuses) != len(in.Pod.Spec.Containers) || len(s.InitContainerStatuses) != len(in.Pod.Spec.InitContainers) {
		t.Fatalf("incomplete status: phase %q, %d of %d containers", s.Phase, len(s.ContainerStatuses), len(in.Pod.Spec.Containers))
	}
}

func checkMonotone(t *rapid.T, prev *corev1.PodStatus, s corev1.PodStatus) {
	total := 0
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		n := 0
		for _, st := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if st.Terminated != nil {
				total += len(st.Terminated.Message)
			}
			for _, set := range []bool{st.Running != nil, st.Waiting != nil, st.Terminated != nil} {
				if set {
					n++
				}
			}
		}
		if n == 0 || c.State == (corev1.ContainerState{}) {
			t.Fatalf("container %s has no state: %+v", c.Name, c)
		}
		if c.Ready && c.State.Running == nil && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			t.Fatalf("container %s is ready in state %+v", c.Name, c.State)
		}
	}
	if total > 2*12<<10 {
		t.Fatalf("termination messages have %d bytes", total)
	}
	if prev == nil {
		return
	}
	old := map[string]int32{}
	for _, c := range append(prev.InitContainerStatuses, prev.ContainerStatuses...) {
		old[c.Name] = c.RestartCount
	}
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		if c.RestartCount < old[c.Name] {
			t.Fatalf("restart count of %s fell from %d to %d", c.Name, old[c.Name], c.RestartCount)
		}
	}
	for _, c := range s.Conditions {
		for _, o := range prev.Conditions {
			if c.Type == o.Type && c.Status == o.Status && !c.LastTransitionTime.Equal(&o.LastTransitionTime) {
				t.Fatalf("%s: transition time moved while it stayed %s", c.Type, c.Status)
			}
		}
	}
}

// Order of containers in the runtime's answer, of other names, must not matter
// beyond the order of each container's own instances.
func TestProperty_OrderOfContainersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		in := drawInput(t, pod, 1)
		want := status.Compute(in)
		shuffled := *in.Runtime
		shuffled.Containers = nil
		names := rapid.Permutation(append(names(pod.Spec.Containers), names(pod.Spec.InitContainers)...)).Draw(t, "order")
		for _, n := range names {
			for _, c := range in.Runtime.Containers {
				if c.Name == n {
					shuffled.Containers = append(shuffled.Containers, c)
				}
			}
		}
		in.Runtime = &shuffled
		if diff := cmp.Diff(want, status.Compute(in)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func names(l []corev1.Container) []string {
	var out []string
	for _, c := range l {
		out = append(out, c.Name)
	}
	return out
}
