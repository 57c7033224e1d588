package status_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"

	"github.com/podsync/sdk/status"
)

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever

	pending   = corev1.PodPending
	run       = corev1.PodRunning
	succeeded = corev1.PodSucceeded
	failed    = corev1.PodFailed

	cAlways    = corev1.ContainerRestartPolicyAlways
	cOnFailure = corev1.ContainerRestartPolicyOnFailure
	cNever     = corev1.ContainerRestartPolicyNever

	restart    = corev1.ContainerRestartRuleActionRestart
	restartAll = corev1.ContainerRestartRuleActionRestartAllContainers
	in         = corev1.ContainerRestartRuleOnExitCodesOpIn
	notIn      = corev1.ContainerRestartRuleOnExitCodesOpNotIn
)

type phaseRow struct {
	name          string
	pod           *corev1.Pod
	init, regular []corev1.ContainerStatus
	life          status.Life
	want          corev1.PodPhase
}

type css = []corev1.ContainerStatus

// The numbers are those of the behaviours that the kubelet's own tests pin.
func phaseRows() []phaseRow {
	var rows []phaseRow
	for _, l := range [][]phaseRow{pinned38(), pinned39and40(), pinned41(), pinned42and43(), pinned44and45(), phaseEdges()} {
		rows = append(rows, l...)
	}
	return rows
}

func pinned38() []phaseRow {
	two := func() *corev1.Pod { return newPod(always, "a", "b") }
	terminal := status.Life{Terminal: true}
	return []phaseRow{
		{name: "38 no statuses", pod: two(), want: pending},
		{name: "38 both run", pod: two(), regular: css{running("a"), running("b")}, want: run},
		{name: "38 both stopped", pod: two(), regular: css{exited("a", 0), exited("b", 1)}, want: run},
		{name: "38 both stopped, terminal, succeeded", pod: two(), regular: css{exited("a", 0), exited("b", 0)}, life: terminal, want: succeeded},
		{name: "38 both stopped, terminal, one failed", pod: two(), regular: css{exited("a", 0), exited("b", 1)}, life: terminal, want: failed},
		{name: "38 both stopped, terminal, static", pod: two(), regular: css{exited("a", 0), exited("b", 0)}, life: status.Life{Terminal: true, Static: true}, want: run},
		{name: "38 one runs, one stopped", pod: two(), regular: css{running("a"), exited("b", 1)}, want: run},
		{name: "38 one missing", pod: two(), regular: css{running("a")}, want: pending},
		{name: "38 one waits", pod: two(), regular: css{running("a"), waiting("b")}, want: pending},
		{name: "38 one crash-loops", pod: two(), regular: css{running("a"), waitingAfter("b", 1)}, want: run},
		{name: "38 both crash-loop", pod: two(), regular: css{waitingAfter("a", 1), waitingAfter("b", 1)}, want: run},
		{name: "38 crash-looping after 0 at the end of the pod", pod: two(), regular: css{exited("a", 0), waitingAfter("b", 0)}, life: terminal, want: failed},
	}
}

func pinned39and40() []phaseRow {
	p := func() *corev1.Pod { return with(newPod(always, "a"), initContainers("i", "j")) }
	sc := func() *corev1.Pod { return with(newPod(always, "a", "b"), sidecars("s", "t")) }
	started := status.Life{RegularStarted: true}
	return []phaseRow{
		{name: "39 no statuses", pod: p(), want: pending},
		{name: "39 first runs", pod: p(), init: css{running("i")}, want: pending},
		{name: "39 first failed", pod: p(), init: css{exited("i", 1)}, want: pending},
		{name: "39 first crash-loops", pod: p(), init: css{waitingAfter("i", 1)}, regular: css{waiting("a")}, want: pending},
		{name: "39 first done, second missing", pod: p(), init: css{exited("i", 0)}, want: pending},
		{name: "39 first done, second waits", pod: p(), init: css{exited("i", 0), waiting("j")}, want: pending},
		{name: "39 all done, regular waits", pod: p(), init: css{exited("i", 0), exited("j", 0)}, regular: css{waiting("a")}, want: pending},
		{name: "39 all done, regular runs", pod: p(), init: css{exited("i", 0), exited("j", 0)}, regular: css{running("a")}, want: run},

		{name: "40 no statuses", pod: sc(), want: pending},
		{name: "40 sidecar runs, not started", pod: sc(), init: css{unstarted("s")}, want: pending},
		{name: "40 sidecars run, one not started, regulars stopped in an older sandbox", pod: sc(), init: css{running("s"), unstarted("t")}, regular: css{exited("a", 0), exited("b", 0)}, want: pending},
		{name: "40 sidecars started, regular missing", pod: sc(), init: css{running("s"), running("t")}, want: pending},
		{name: "40 sidecars and regulars run", pod: sc(), init: css{running("s"), running("t")}, regular: css{running("a"), running("b")}, life: started, want: run},
		{name: "40 sidecar restarts, not started again, regulars run", pod: sc(), init: css{running("s"), unstarted("t")}, regular: css{running("a"), running("b")}, life: started, want: run},
		{name: "40 sidecar crash-loops, regulars run", pod: sc(), init: css{running("s"), waitingAfter("t", 1)}, regular: css{running("a"), running("b")}, life: started, want: run},
		{name: "40 sandbox recreated, sidecar initialises again", pod: sc(), init: css{running("s"), waiting("t")}, regular: css{waitingAfter("a", 0), waitingAfter("b", 0)}, want: pending},
	}
}

func pinned41() []phaseRow {
	p := func() *corev1.Pod { return with(newPod(always, "a"), initContainers("i"), sidecars("s")) }
	return []phaseRow{
		{name: "41 init runs again, regular runs", pod: p(), init: css{running("i"), running("s")}, regular: css{running("a")}, want: pending},
		{name: "41 init runs again, regular stopped", pod: p(), init: css{running("i"), running("s")}, regular: css{exited("a", 1)}, want: pending},
		{name: "41 stale regular of an older sandbox", pod: p(), init: css{exited("i", 0), unstarted("s")}, regular: css{exited("a", 1)}, want: pending},
		{name: "41 the same, but started in this sandbox", pod: p(), init: css{exited("i", 0), unstarted("s")}, regular: css{exited("a", 1)}, life: status.Life{RegularStarted: true}, want: run},
	}
}

func pinned42and43() []phaseRow {
	two := func() *corev1.Pod { return newPod(never, "a", "b") }
	p := func() *corev1.Pod { return with(newPod(never, "a"), initContainers("i")) }
	sc := func() *corev1.Pod { return with(newPod(never, "a", "b"), sidecars("s")) }
	started := status.Life{RegularStarted: true}
	return []phaseRow{
		{name: "42 no statuses", pod: two(), want: pending},
		{name: "42 both run", pod: two(), regular: css{running("a"), running("b")}, want: run},
		{name: "42 both succeeded", pod: two(), regular: css{exited("a", 0), exited("b", 0)}, want: succeeded},
		{name: "42 both failed", pod: two(), regular: css{exited("a", 1), exited("b", 2)}, want: failed},
		{name: "42 one failed", pod: two(), regular: css{exited("a", 0), exited("b", 2)}, want: failed},
		{name: "42 one runs, one failed", pod: two(), regular: css{running("a"), exited("b", 2)}, want: run},
		{name: "42 one missing", pod: two(), regular: css{running("a")}, want: pending},
		{name: "42 on failure, both succeeded", pod: newPod(onFailure, "a", "b"), regular: css{exited("a", 0), exited("b", 0)}, want: succeeded},
		{name: "42 on failure, one failed", pod: newPod(onFailure, "a", "b"), regular: css{exited("a", 0), exited("b", 2)}, want: run},
		{name: "42 init failed", pod: p(), init: css{exited("i", 1)}, want: failed},
		{name: "42 init waits after it failed", pod: p(), init: css{waitingAfter("i", 1)}, regular: css{waiting("a")}, want: failed},
		{name: "42 init waits", pod: p(), init: css{waiting("i")}, want: pending},
		{name: "42 init done, regular done", pod: p(), init: css{exited("i", 0)}, regular: css{exited("a", 0)}, want: succeeded},
		{name: "42 init failed on failure", pod: with(newPod(onFailure, "a"), initContainers("i")), init: css{exited("i", 1)}, want: pending},

		{name: "43 mains succeeded, sidecar runs", pod: sc(), init: css{running("s")}, regular: css{exited("a", 0), exited("b", 0)}, life: started, want: run},
		{name: "43 all ended, sidecar well", pod: sc(), init: css{exited("s", 0)}, regular: css{exited("a", 0), exited("b", 0)}, life: started, want: succeeded},
		{name: "43 all ended, sidecar badly", pod: sc(), init: css{exited("s", 137)}, regular: css{exited("a", 0), exited("b", 0)}, life: started, want: succeeded},
		{name: "43 all ended, sidecar waits after a bad end", pod: sc(), init: css{waitingAfter("s", 137)}, regular: css{exited("a", 0), exited("b", 0)}, life: started, want: succeeded},
		{name: "43 all ended, one main badly", pod: sc(), init: css{exited("s", 0)}, regular: css{exited("a", 0), exited("b", 9)}, life: started, want: failed},
		{name: "43 sidecar missing", pod: sc(), regular: css{running("a"), running("b")}, life: started, want: pending},
	}
}

func pinned44and45() []phaseRow {
	rule := func(a corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) podOption {
		return containerPolicy("a", cNever, onExit(a, op, codes...))
	}
	gone := exitedFor("a", 137, "RestartingAllContainers")
	return []phaseRow{
		{name: "44 container always beats pod never", pod: with(newPod(never, "a"), containerPolicy("a", cAlways)), regular: css{exited("a", 0)}, want: run},
		{name: "44 container on-failure beats pod never, failed", pod: with(newPod(never, "a"), containerPolicy("a", cOnFailure)), regular: css{exited("a", 1)}, want: run},
		{name: "44 container on-failure beats pod never, succeeded", pod: with(newPod(never, "a"), containerPolicy("a", cOnFailure)), regular: css{exited("a", 0)}, want: succeeded},
		{name: "44 container never beats pod always, failed", pod: with(newPod(always, "a"), containerPolicy("a", cNever)), regular: css{exited("a", 1)}, want: failed},
		{name: "44 container never beats pod always, succeeded", pod: with(newPod(always, "a"), containerPolicy("a", cNever)), regular: css{exited("a", 0)}, want: succeeded},
		{name: "44 rule matches", pod: with(newPod(never, "a"), rule(restart, in, 42)), regular: css{exited("a", 42)}, want: run},
		{name: "44 rule does not match", pod: with(newPod(never, "a"), rule(restart, in, 42)), regular: css{exited("a", 1)}, want: failed},
		{name: "44 not-in rule matches", pod: with(newPod(never, "a"), rule(restart, notIn, 42)), regular: css{exited("a", 1)}, want: run},
		{name: "44 not-in rule does not match", pod: with(newPod(never, "a"), rule(restart, notIn, 42)), regular: css{exited("a", 42)}, want: failed},
		{name: "44 unknown action and operator do nothing", pod: with(newPod(never, "a"), containerPolicy("a", cNever, onExit("Explode", in, 42), onExit(restart, "Near", 42))), regular: css{exited("a", 42)}, want: failed},
		{name: "44 init with its own policy", pod: with(newPod(never, "a"), initContainers("i"), containerPolicy("i", cOnFailure)), init: css{exited("i", 1)}, want: pending},
		{name: "44 init never beats pod always", pod: with(newPod(always, "a"), initContainers("i"), containerPolicy("i", cNever)), init: css{exited("i", 1)}, want: failed},
		{name: "44 one runs, one ended for good", pod: with(newPod(always, "a", "b"), containerPolicy("a", cNever)), regular: css{exited("a", 1), running("b")}, want: run},

		{name: "45 all regulars being restarted", pod: with(newPod(never, "a"), rule(restartAll, in, 42)), regular: css{gone}, want: run},
		{name: "45 trigger has just exited", pod: with(newPod(never, "a", "b"), rule(restartAll, in, 42)), regular: css{exited("a", 42), running("b")}, want: run},
		{name: "45 init being restarted", pod: with(newPod(never, "a"), initContainers("i"), rule(restartAll, in, 42)), init: css{exitedFor("i", 137, "RestartingAllContainers")}, regular: css{waiting("a")}, want: pending},
	}
}

func phaseEdges() []phaseRow {
	return []phaseRow{
		{name: "RUN-15 init killed for memory with exit code 0", pod: with(newPod(never, "a"), initContainers("i")), init: css{exitedFor("i", 0, "OOMKilled")}, want: failed},
		{name: "RUN-15 the same under always", pod: with(newPod(always, "a"), initContainers("i")), init: css{exitedFor("i", 0, "OOMKilled")}, regular: css{waiting("a")}, want: pending},
		{name: "a status with no state", pod: newPod(always, "a"), regular: css{{Name: "a"}}, want: pending},
		{name: "no containers", pod: newPod(always), want: pending},
		{name: "a status of a container that is not in the spec", pod: newPod(never, "a"), regular: css{exited("a", 0), running("x")}, want: succeeded},
	}
}

func TestPhase(t *testing.T) {
	for _, r := range phaseRows() {
		t.Run(r.name, func(t *testing.T) {
			s := &corev1.PodStatus{InitContainerStatuses: r.init, ContainerStatuses: r.regular}
			if got := status.Phase(r.pod, s, r.life); got != r.want {
				t.Errorf("Phase = %q, want %q", got, r.want)
			}
		})
	}
}

func TestRestarts(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		code int32
		want bool
	}{
		{"always", newPod(always, "a"), 0, true},
		{"policy left empty is always", newPod("", "a"), 0, true},
		{"on failure, failed", newPod(onFailure, "a"), 3, true},
		{"on failure, succeeded", newPod(onFailure, "a"), 0, false},
		{"never", newPod(never, "a"), 3, false},
		{"first matching rule", with(newPod(never, "a"), containerPolicy("a", cNever, onExit(restart, in, 1), onExit(restart, in, 3))), 3, true},
		{"rule without exit codes", with(newPod(never, "a"), containerPolicy("a", cNever, corev1.ContainerRestartRule{Action: restart})), 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := podspec.Restarts(tt.pod, &tt.pod.Spec.Containers[0], tt.code); got != tt.want {
				t.Errorf("podspec.Restarts(%d) = %v, want %v", tt.code, got, tt.want)
			}
		})
	}
}
