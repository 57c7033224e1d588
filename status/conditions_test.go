package status_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// short words a condition for comparison.
func short(c corev1.PodCondition) string {
	s := string(c.Status)
	if c.Reason != "" {
		s += " " + c.Reason
	}
	if c.Message != "" {
		s += ": " + c.Message
	}
	return s
}

func gates(types ...corev1.PodConditionType) podOption {
	return func(p *corev1.Pod) {
		for _, t := range types {
			p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: t})
		}
	}
}

func setCondition(t corev1.PodConditionType, s corev1.ConditionStatus) podOption {
	return func(p *corev1.Pod) {
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == t {
				p.Status.Conditions[i].Status = s
				return
			}
		}
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: s})
	}
}

func TestCase_STA_04_ReadinessGates(t *testing.T) {
	const a, b = "example.com/a", "example.com/b"
	pod := with(newPod(always, "main"), gates(a, b))
	r := inRuntime().ready().runs("main", "1").done()
	steps := []struct {
		name   string
		change []podOption
		want   string
		flips  bool
	}{
		{"neither exists", nil, `False ReadinessGatesNotReady: the condition of readiness gate "example.com/a" is missing; the condition of readiness gate "example.com/b" is missing`, true},
		{"a is False", []podOption{setCondition(a, "False")}, `False ReadinessGatesNotReady: readiness gate "example.com/a" is False, not True; the condition of readiness gate "example.com/b" is missing`, false},
		{"a is True, b is False", []podOption{setCondition(a, "True"), setCondition(b, "False")}, `False ReadinessGatesNotReady: readiness gate "example.com/b" is False, not True`, false},
		{"both are True", []podOption{setCondition(b, "True")}, `True`, true},
		{"a is False again", []podOption{setCondition(a, "False")}, `False ReadinessGatesNotReady: readiness gate "example.com/a" is False, not True`, true},
	}
	var prev *corev1.PodStatus
	changed := at(0)
	for i, step := range steps {
		pod = with(pod.DeepCopy(), step.change...)
		now := at(10 * (i + 1))
		s := status.Compute(status.Input{Pod: pod, Runtime: r, Previous: prev, Now: now})
		c := findCondition(t, s, corev1.PodReady)
		if got := short(c); got != step.want {
			t.Errorf("%s: Ready is\n got %s\nwant %s", step.name, got, step.want)
		}
		if step.flips {
			changed = now
		}
		if !c.LastTransitionTime.Time.Equal(changed.Time) {
			t.Errorf("%s: Ready changed at %v, want %v", step.name, c.LastTransitionTime, changed)
		}
		if got := short(findCondition(t, s, corev1.ContainersReady)); got != "True" {
			t.Errorf("%s: ContainersReady is %s; gates have no say in it", step.name, got)
		}
		prev = &s
	}
}

func TestConditions(t *testing.T) {
	both := func() *corev1.Pod { return with(newPod(always, "a"), initContainers("i"), sidecars("s")) }
	tests := []struct {
		name    string
		pod     *corev1.Pod
		runtime *runtimePod
		life    func(*status.Input)
		want    map[corev1.PodConditionType]string
	}{
		{"new pod", newPod(always, "a"), inRuntime(), nil, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: the pod has no sandbox",
			corev1.PodInitialized:            "True",
			corev1.PodReady:                  "False ContainersNotReady: containers not ready: a",
			corev1.ContainersReady:           "False ContainersNotReady: containers not ready: a",
			corev1.PodScheduled:              "True",
		}},
		{"waiting for the network", newPod(always, "a"), inRuntime(), func(i *status.Input) {
			i.Waiting = status.Waiting{Reason: "NetworkNotReady", Message: "cni plugin not initialized"}
		}, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False NetworkNotReady: cni plugin not initialized",
		}},
		{"waiting without a reason", newPod(always, "a"), inRuntime(), func(i *status.Input) {
			i.Waiting = status.Waiting{Message: "no space left"}
		}, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: no space left",
		}},
		{"waiting for a volume beside a good sandbox", newPod(always, "a"), inRuntime().ready(), func(i *status.Input) {
			i.Waiting = status.Waiting{Reason: "VolumesNotReady"}
		}, map[corev1.PodConditionType]string{corev1.PodReadyToStartContainers: "True"}},
		{"sandbox stopped", newPod(always, "a"), inRuntime().sandbox("sb", false, ""), nil, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: the pod's newest sandbox is not ready",
		}},
		{"two ready sandboxes", newPod(always, "a"), inRuntime().sandbox("x", true, "10.1.0.1").sandbox("y", true, "10.1.0.2"), nil, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: the pod has 2 ready sandboxes where one is right",
		}},
		{"sandbox without an address", newPod(always, "a"), inRuntime().sandbox("sb", true, ""), nil, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: the sandbox has no address",
		}},
		{"init container runs", both(), inRuntime().ready().runs("i", "1"), nil, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "True",
			corev1.PodInitialized:            "False ContainersNotInitialized: containers not finished: i, s",
			corev1.ContainersReady:           "False ContainersNotReady: containers not ready: s, a",
		}},
		{"initialised", both(), inRuntime().ready().runs("s", "2").ends("i", "1", 0, "Completed"), nil, map[corev1.PodConditionType]string{
			corev1.PodInitialized: "True",
		}},
		{"sidecar fails beside a regular container", both(), inRuntime().ready().runs("a", "3").ends("s", "2", 1, "Error").ends("i", "1", 0, "Completed"), nil, map[corev1.PodConditionType]string{
			corev1.PodInitialized:  "True",
			corev1.ContainersReady: "False ContainersNotReady: containers not ready: s",
		}},
		{"all well", both(), inRuntime().ready().runs("a", "3").runs("s", "2").ends("i", "1", 0, "Completed"), nil, map[corev1.PodConditionType]string{
			corev1.PodInitialized:  "True",
			corev1.PodReady:        "True",
			corev1.ContainersReady: "True",
		}},
		{"succeeded", newPod(never, "a"), inRuntime().sandbox("sb", false, "").ends("a", "1", 0, "Completed"), func(i *status.Input) { i.Terminal = true }, map[corev1.PodConditionType]string{
			corev1.PodReadyToStartContainers: "False PodSandboxNotReady: the pod's newest sandbox is not ready",
			corev1.PodInitialized:            "True PodCompleted",
			corev1.PodReady:                  "False PodCompleted",
			corev1.ContainersReady:           "False PodCompleted",
		}},
		{"failed", newPod(never, "a"), inRuntime().sandbox("sb", false, "").ends("a", "1", 1, "Error"), func(i *status.Input) { i.Terminal = true }, map[corev1.PodConditionType]string{
			corev1.PodReady:        "False PodFailed",
			corev1.ContainersReady: "False PodFailed",
		}},
		{"45 all restarting", restartAllPod(), inRuntime().ready().runs("b", "2").ends("a", "1", 42, "Error"), nil, map[corev1.PodConditionType]string{
			corev1.AllContainersRestarting: "True RestartAllContainersStarted",
		}},
		{"45 not restarting", restartAllPod(), inRuntime().ready().runs("b", "2").runs("a", "1"), nil, map[corev1.PodConditionType]string{
			corev1.AllContainersRestarting: "False",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := status.Input{Pod: tt.pod, Runtime: tt.runtime.done(), Now: at(0)}
			if tt.life != nil {
				tt.life(&in)
			}
			s := status.Compute(in)
			for typ, want := range tt.want {
				if got := short(findCondition(t, s, typ)); got != want {
					t.Errorf("%s\n got %s\nwant %s", typ, got, want)
				}
			}
		})
	}
}

func TestConditions_HostNetworkMustMatch(t *testing.T) {
	r := inRuntime().ready()
	r.p.Sandboxes[0].HostNetwork = true
	for _, onHost := range []bool{true, false} {
		pod := newPod(always, "a")
		pod.Spec.HostNetwork = onHost
		s := status.Compute(status.Input{Pod: pod, Runtime: r.done(), Now: at(0)})
		want := "True"
		if !onHost {
			want = "False PodSandboxNotReady: the sandbox's use of the host network is not what the pod wants"
		}
		if got := short(findCondition(t, s, corev1.PodReadyToStartContainers)); got != want {
			t.Errorf("hostNetwork %v: %s, want %s", onHost, got, want)
		}
	}
}

func TestConditions_InitializedStays(t *testing.T) {
	pod := with(newPod(always, "a"), initContainers("i"))
	s := computeAfter(
		status.Input{Pod: pod, Runtime: inRuntime().ready().runs("a", "2").ends("i", "1", 0, "Completed").done(), Now: at(1)},
		status.Input{Pod: pod, Runtime: inRuntime().sandbox("new", true, "10.1.0.9").runs("i", "3").done(), Now: at(2)},
	)
	if got := short(findCondition(t, s, corev1.PodInitialized)); got != "True" {
		t.Errorf("Initialized is %s when the pod initialises anew, want True", got)
	}
	if s.Phase != pending {
		t.Errorf("phase %s, want Pending", s.Phase)
	}
}

// STA-05, the part that is computed: what others own stays, in the pod's status
// as its source has it.
func TestCase_STA_05_ForeignFieldsStay(t *testing.T) {
	pod := with(newPod(always, "a"), setCondition("example.com/gate", "True"), setCondition(corev1.PodReady, "False"), setCondition(corev1.PodResizePending, "True"))
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}}
	pod.Status.NominatedNodeName = "n"
	in := status.Input{Pod: pod, Runtime: inRuntime().ready().runs("a", "1").done(), Now: at(5)}
	s := status.Compute(in)
	var types []string
	for _, c := range s.Conditions {
		types = append(types, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	want := []string{"example.com/gate=True", "PodReadyToStartContainers=True", "Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(s.ResourceClaimStatuses) != 1 || s.NominatedNodeName != "n" {
		t.Errorf("fields of other owners were lost: %+v, %q", s.ResourceClaimStatuses, s.NominatedNodeName)
	}
	in.Previous = &s
	again := status.Compute(in)
	if diff := cmp.Diff(s, again); diff != "" {
		t.Errorf("nothing changed, yet the status did (-first +second):\n%s", diff)
	}
}

func TestConditions_ObservedGeneration(t *testing.T) {
	pod := newPod(always, "a")
	pod.Generation = 7
	r := inRuntime().ready().runs("a", "1").done()
	s := status.Compute(status.Input{Pod: pod, Runtime: r, Now: at(0)})
	older := pod.DeepCopy()
	older.Generation = 3
	s = status.Compute(status.Input{Pod: older, Runtime: r, Previous: &s, Now: at(1)})
	if s.ObservedGeneration != 7 {
		t.Errorf("status.observedGeneration fell to %d", s.ObservedGeneration)
	}
	for _, c := range s.Conditions {
		if c.ObservedGeneration != 7 {
			t.Errorf("condition %s: observedGeneration %d, want 7", c.Type, c.ObservedGeneration)
		}
	}
}

func TestConditions_DisruptionTarget(t *testing.T) {
	pod := newPod(always, "a")
	target := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet}
	why := podsync.Termination{Evicted: true, Phase: failed, Reason: "Evicted", Conditions: []corev1.PodCondition{target}}
	stopping := status.Input{Pod: pod, Runtime: inRuntime().ready().runs("a", "1").done(), Terminating: true, Termination: why, Now: at(1)}
	s := status.Compute(stopping)
	for _, c := range s.Conditions {
		if c.Type == corev1.DisruptionTarget {
			t.Error("DisruptionTarget is said while the pod still stops")
		}
	}
	stopped := status.Input{Pod: pod, Runtime: inRuntime().sandbox("sb", false, "").ends("a", "1", 0, "").done(), Terminating: true, Terminal: true, Termination: why, Now: at(2)}
	s = computeAfter(stopping, stopped)
	if got := short(findCondition(t, s, corev1.DisruptionTarget)); got != "True TerminationByKubelet" {
		t.Errorf("DisruptionTarget is %s", got)
	}
	// A later run that does not know why any more keeps it.
	stopped.Termination = podsync.Termination{}
	stopped.Previous = &s
	if got := short(findCondition(t, status.Compute(stopped), corev1.DisruptionTarget)); got != "True TerminationByKubelet" {
		t.Errorf("DisruptionTarget became %s", got)
	}
}
