package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/cri/plan"
)

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

// decision is a row of the golden table.
type decision struct {
	name   string
	pod    *corev1.Pod
	rt     string
	probes plan.Probes
	// had are the resources that instances were given, by id; "pod" is the
	// sandbox's.
	had map[string]corev1.ResourceRequirements
	// box is what is wrong with the sandbox; "" is not looked at.
	box  plan.SandboxVerdict
	want string
}

// input is what the row's plan is made of.
func (d *decision) input() plan.Input {
	r := rt(d.pod, d.rt)
	for id, res := range d.had {
		for _, c := range r.Containers {
			if c.ID == id {
				c.Actuated = &res
			}
		}
		if id == "pod" {
			r.Sandboxes[0].Actuated = &res
		}
	}
	return plan.Input{Pod: d.pod, Runtime: r, Hashes: plan.Hashes(d.pod, hashOf), Probes: d.probes}
}

// decisions is the table of decisions. Names that begin with a number are the
// kubelet's own unit tests as numbered in its behaviour inventory §3.1.
func decisions() []decision {
	host := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	in, notIn := corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	restart, restartAll := corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	inits := "i:x i:y i:z a b"
	cars := "s:x s:y s:z a b"

	small, large := res("100m", "200m", "32Mi", "64Mi"), res("200m", "400m", "64Mi", "128Mi")
	sized := func(r corev1.ResourceRequirements, restart ...corev1.ResourceName) func(*corev1.Container) {
		return func(c *corev1.Container) {
			c.Resources = r
			for _, n := range restart {
				c.ResizePolicy = append(c.ResizePolicy, corev1.ContainerResizePolicy{ResourceName: n, RestartPolicy: corev1.RestartContainer})
			}
		}
	}
	had := func(kv ...any) map[string]corev1.ResourceRequirements {
		m := map[string]corev1.ResourceRequirements{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1].(corev1.ResourceRequirements)
		}
		return m
	}
	podLevel := func(r corev1.ResourceRequirements) podOption { return func(p *corev1.Pod) { p.Spec.Resources = &r } }

	return []decision{
		{name: "1 nothing there", pod: pod(always, "a b c"), rt: "", want: "create 0; start a; start b; start c"},
		{name: "all run", pod: pod(always, "a b c"), rt: "S c b a", want: ""},
		{name: "2 exited under Always", pod: pod(always, "a b c"), rt: "S c b a=0", want: "start a"},
		{name: "2 exited under OnFailure", pod: pod(onFailure, "a b c"), rt: "S c b=1 a=0", want: "start b"},
		{name: "3 created", pod: pod(always, "a b"), rt: "S b a+", want: "remove a.2; start a"},
		{name: "3 created under Never", pod: pod(never, "a b"), rt: "S b a+", want: "remove a.2; start a"},
		{name: "4 Never, one runs", pod: pod(never, "a b c"), rt: "S c b=1 a=0", want: ""},
		{name: "5 dead sandbox", pod: pod(always, "a b"), rt: "!S b=0 a=0", want: "stop S0; create 1; start a; start b"},
		{name: "5 dead sandbox, OnFailure", pod: pod(onFailure, "a b"), rt: "!S3 b=1 a=0", want: "stop S3; create 4; start b"},
		{name: "6 NET-09 no address", pod: pod(always, "a"), rt: "S~ a", want: "kill a.1 SandboxChanged; stop S0; create 1; start a"},
		{name: "6 NET-09 no network status", pod: pod(always, "a"), rt: "S* a", want: ""},
		{name: "6 NET-09 host network has no address", pod: pod(always, "a", host), rt: "Sh a", want: ""},
		{name: "6 NET-09 two ready", pod: pod(always, "a"), rt: "S1 S0 a", want: "kill a.1 SandboxChanged; stop S1; stop S0; create 2; start a"},
		{name: "NET-09 not ready, the older is", pod: pod(always, "a"), rt: "!S1 S0 a", want: "kill a.1 SandboxChanged; stop S1; stop S0; create 2; start a"},
		{name: "network mode changed", pod: pod(always, "a", host), rt: "S a", want: "kill a.1 SandboxChanged; stop S0; create 1; start a"},
		{name: "NET-01 half-made sandbox", pod: pod(always, "a"), rt: "!S0", want: "stop S0; create 1; start a"},
		{name: "RUN-02 the timed-out attempt is not visible", pod: pod(always, "a"), rt: "", want: "create 0; start a"},
		{name: "7 spec changed", pod: pod(always, "a b"), rt: "S b a#", want: "kill a.2 SpecChanged; start a"},
		{name: "RUN-19a image changed under Never", pod: pod(never, "a b"), rt: "S b a#", want: "kill a.2 SpecChanged; start a"},
		{name: "RUN-19b only env changed", pod: pod(never, "a", with("a", func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "X"}} })), rt: "S a", want: ""},
		{name: "8 liveness failed", pod: pod(always, "a b", with("a", livenessProbe)), rt: "S b a", probes: verdicts{"a.2": "l"}, want: "kill a.2 LivenessProbe; start a"},
		{name: "8 startup failed", pod: pod(always, "a b", with("a", startupProbe)), rt: "S b a", probes: verdicts{"a.2": "s"}, want: "kill a.2 StartupProbe; start a"},
		{name: "liveness failed under Never", pod: pod(never, "a b", with("a", livenessProbe)), rt: "S b a", probes: verdicts{"a.2": "l"}, want: "kill a.2 LivenessProbe"},
		{name: "liveness of an older instance", pod: pod(always, "a", with("a", livenessProbe)), rt: "S a", probes: verdicts{"a.0": "l"}, want: ""},
		{name: "9 Never, all exited, no sandbox ready", pod: pod(never, "a b"), rt: "!S b=1 a=0", want: "over"},
		{name: "9 OnFailure, all succeeded", pod: pod(onFailure, "a b"), rt: "!S b=0 a=0", want: "over"},
		{name: "Never, all exited, sandbox ready", pod: pod(never, "a b"), rt: "S b=1 a=0", want: "over; stop S0"},
		{name: "10 Never, no container ever", pod: pod(never, "a b"), rt: "!S1 !S0", want: "stop S1; stop S0; create 2; start a; start b"},
		{name: "Never, only created", pod: pod(never, "a"), rt: "!S a+", want: "stop S0; create 1; start a"},
		{name: "11 RUN-09 unknown", pod: pod(always, "a b"), rt: "S b a?", want: "kill a.2 UnknownState; start a"},
		{name: "11 unknown under Never", pod: pod(never, "a b"), rt: "S b a?", want: "kill a.2 UnknownState; start a"},

		{name: "12 reset", pod: pod(always, "i:x a b", with("a", ruled(corev1.ContainerRestartPolicyNever, restartAll, in, 42))), rt: "S b a=42 a=1 x=0",
			want: "reset-by a; kill b.1 RestartAllContainers; remove b.1; remove x.4; remove a.2; remove a.3"},
		{name: "12 reset done", pod: pod(always, "i:x a b", with("a", ruled(corev1.ContainerRestartPolicyNever, restartAll, in, 42))), rt: "S", want: "start x"},
		{name: "12 reset by an init container", pod: pod(never, "i:x a", with("x", ruled(corev1.ContainerRestartPolicyNever, restartAll, in, 42))), rt: "S x=42", want: "reset-by x; remove x.1"},
		{name: "12 exit of an older sandbox", pod: pod(always, "a b", with("a", ruled(corev1.ContainerRestartPolicyAlways, restartAll, in, 42))), rt: "S1 !S0 b a=42/0", want: "start a"},

		{name: "13 no init started", pod: pod(always, inits), rt: "S", want: "start x"},
		{name: "14 dead sandbox", pod: pod(always, inits), rt: "!S b=0 a=0 z=0 y=0 x=0", want: "stop S0; create 1; start x"},
		{name: "15 last init failed", pod: pod(always, inits), rt: "S z=1 y=0 x=0", want: "start z"},
		{name: "15 last init failed, OnFailure", pod: pod(onFailure, inits), rt: "S z=1 y=0 x=0", want: "start z"},
		{name: "15 last init failed, Never", pod: pod(never, inits), rt: "S z=1 y=0 x=0", want: "over; stop S0"},
		{name: "RUN-15 init killed for memory with code 0", pod: pod(never, inits), rt: "S z=oom y=0 x=0", want: "over; stop S0"},
		{name: "RUN-15 the same under OnFailure", pod: pod(onFailure, inits), rt: "S z=oom y=0 x=0", want: "start z"},
		{name: "16 init unknown", pod: pod(always, inits), rt: "S z? y=0 x=0", want: "kill z.1 UnknownState; start z"},
		{name: "16 init unknown, Never", pod: pod(never, inits), rt: "S z? y=0 x=0", want: "over; kill z.1 PodOver; stop S0"},
		{name: "17 sandbox dead, init failed, Never", pod: pod(never, inits), rt: "!S z=1 y=0 x=0", want: "over"},
		{name: "17 nothing visible", pod: pod(never, inits), rt: "", want: "create 0; start x"},
		{name: "17 sandbox dead, init failed, OnFailure", pod: pod(onFailure, inits), rt: "!S z=1 y=0 x=0", want: "stop S0; create 1; start x"},
		{name: "18 earlier inits missing", pod: pod(always, inits), rt: "S z", want: ""},
		{name: "19 stale regular of an older sandbox", pod: pod(always, inits), rt: "S1 !S0 a=0/0", want: "start x"},
		{name: "19 stale inits of an older sandbox", pod: pod(always, inits), rt: "S1 !S0 z=0/0 y=0/0 x=0/0", want: "start x"},
		{name: "20 RUN-05 init created", pod: pod(always, inits), rt: "S x+", want: "remove x.1; start x"},
		{name: "20 RUN-05 init created, Never", pod: pod(never, inits), rt: "S z+ y=0 x=0", want: "remove z.1; start z"},
		{name: "next init", pod: pod(always, inits), rt: "S x=0", want: "start y"},
		{name: "inits through", pod: pod(always, inits), rt: "S z=0 y=0 x=0", want: "start a; start b"},
		{name: "RUN-03 pruned init under a live app", pod: pod(always, "i:x a"), rt: "S a", want: ""},
		{name: "RUN-03 pruned earlier init", pod: pod(always, "i:x i:y a"), rt: "S y", want: ""},
		{name: "RUN-03 app and sandbox gone", pod: pod(always, "i:x a"), rt: "!S a=137", want: "stop S0; create 1; start x"},

		{name: "21 sidecar runs", pod: pod(always, cars), rt: "S x", want: "start y"},
		{name: "21 sidecar started", pod: pod(always, cars, with("x", startupProbe)), rt: "S x", probes: verdicts{"x.1": "S"}, want: "start y"},
		{name: "22 liveness not run", pod: pod(always, cars, with("x", livenessProbe)), rt: "S x", probes: verdicts{}, want: "start y"},
		{name: "22 startup not run", pod: pod(always, cars, with("x", startupProbe)), rt: "S x", probes: verdicts{}, want: ""},
		{name: "23 liveness failed", pod: pod(always, cars, with("z", livenessProbe)), rt: "S z y x", probes: verdicts{"z.1": "l"}, want: "kill z.1 LivenessProbe; start z; start a; start b"},
		{name: "23 startup failed", pod: pod(always, cars, with("z", startupProbe)), rt: "S z y x", probes: verdicts{"z.1": "s"}, want: "kill z.1 StartupProbe; start z"},
		{name: "23 sidecar spec changed", pod: pod(always, cars), rt: "S b a z y# x", want: "kill y.4 SpecChanged; start y"},
		{name: "24 dead earlier sidecar with the next", pod: pod(always, cars), rt: "S y x=1", want: "start x; start z"},
		{name: "24 dead earlier sidecar with regulars", pod: pod(always, cars), rt: "S z y=0 x", want: "start y; start a; start b"},
		{name: "25 sidecar dead under Never", pod: pod(never, cars), rt: "S z=1 y x", want: "start z"},
		{name: "25 sidecar unknown under Never", pod: pod(never, cars), rt: "S z? y x", want: "kill z.1 UnknownState; start z"},
		{name: "25 sidecar dead in the main phase, Never", pod: pod(never, cars), rt: "S b a z y=1 x", want: "start y"},
		{name: "26 all regulars succeeded, Never", pod: pod(never, cars), rt: "S b=0 a=0 z y=1 x", want: "over; kill z.3 PodOver; kill x.5 PodOver; stop S0"},
		{name: "27 sidecars missing", pod: pod(always, cars), rt: "S z", want: "start x; start y; start a; start b"},
		{name: "27 stale main", pod: pod(always, cars), rt: "S1 !S0 a=0/0", want: "start x"},
		{name: "sidecar created", pod: pod(always, cars), rt: "S x+", want: "remove x.1; start x"},

		{name: "28 RUN-19d ephemeral during init", pod: pod(always, "i:x a e:d"), rt: "S x", want: "start d"},
		{name: "28 RUN-19c ephemeral exited", pod: pod(always, "a e:d"), rt: "S d=1 a", want: ""},
		{name: "28 ephemeral unknown", pod: pod(always, "a e:d"), rt: "S d? a", want: ""},
		{name: "28 ephemeral keeps nothing alive", pod: pod(never, "a e:d"), rt: "S d a=0", want: "over; kill d.1 PodOver; stop S0"},
		{name: "28 ephemeral not in the run of a new sandbox", pod: pod(always, "a e:d"), rt: "", want: "create 0; start a"},
		{name: "28 ephemeral of an older sandbox", pod: pod(always, "a e:d"), rt: "S1 !S0 a d=137/0", want: ""},
		{name: "ephemeral created", pod: pod(always, "a e:d"), rt: "S d+ a", want: "remove d.1; start d"},

		{name: "29 rule matches", pod: pod(never, "a b", with("a", ruled(corev1.ContainerRestartPolicyNever, restart, in, 42))), rt: "S b a=42", want: "start a"},
		{name: "29 rule does not match", pod: pod(never, "a b", with("a", ruled(corev1.ContainerRestartPolicyNever, restart, in, 42))), rt: "S b a=1", want: ""},
		{name: "29 rule NotIn", pod: pod(never, "a b", with("a", ruled(corev1.ContainerRestartPolicyNever, restart, notIn, 0))), rt: "S b a=1", want: "start a"},
		{name: "30 nothing resized", pod: pod(always, "a b", with("a", sized(small))), rt: "S b a", had: had("a.2", small), want: ""},
		{name: "30 unknown what it was given", pod: pod(always, "a b", with("a", sized(small))), rt: "S b a", want: ""},
		{name: "30 grows in place", pod: pod(always, "a b", with("a", sized(large))), rt: "S b a", had: had("a.2", small), want: "resize a.2 memory; resize a.2 cpu; resize pod"},
		{name: "30 shrinks first", pod: pod(always, "a b", with("a", sized(large)), with("b", sized(small))), rt: "S b a", had: had("a.2", small, "b.1", large),
			want: "resize b.1 memory shrinks; resize a.2 memory; resize b.1 cpu shrinks; resize a.2 cpu; resize pod"},
		{name: "30 memory alone", pod: pod(always, "a", with("a", sized(res("100m", "200m", "64Mi", "64Mi")))), rt: "S a", had: had("a.1", small), want: "resize a.1 memory; resize pod"},
		{name: "30 a limit removed grows", pod: pod(always, "a", with("a", sized(res("100m", "", "32Mi", "64Mi")))), rt: "S a", had: had("a.1", small), want: "resize a.1 cpu; resize pod"},
		{name: "30 a limit added shrinks", pod: pod(always, "a", with("a", sized(small))), rt: "S a", had: had("a.1", res("100m", "", "32Mi", "64Mi")), want: "resize a.1 cpu shrinks; resize pod"},
		{name: "30 RestartContainer", pod: pod(always, "a b", with("a", sized(large, corev1.ResourceMemory))), rt: "S b a", had: had("a.2", small), want: "kill a.2 Resized; resize pod; start a"},
		{name: "30 RestartContainer of the other resource", pod: pod(always, "a", with("a", sized(res("200m", "400m", "32Mi", "64Mi"), corev1.ResourceMemory))), rt: "S a", had: had("a.1", small), want: "resize a.1 cpu; resize pod"},
		{name: "30 liveness before the resize", pod: pod(always, "a", with("a", sized(large, corev1.ResourceCPU)), with("a", livenessProbe)), rt: "S a", probes: verdicts{"a.1": "l"}, had: had("a.1", small), want: "kill a.1 LivenessProbe; start a"},
		{name: "30 startup before the resize", pod: pod(always, "a", with("a", sized(large, corev1.ResourceCPU)), with("a", startupProbe)), rt: "S a", probes: verdicts{"a.1": "s"}, had: had("a.1", small), want: "kill a.1 StartupProbe; start a"},
		{name: "30 spec before the resize", pod: pod(always, "a", with("a", sized(large, corev1.ResourceCPU))), rt: "S a#", had: had("a.1", small), want: "kill a.1 SpecChanged; start a"},
		{name: "30 exited", pod: pod(always, "a", with("a", sized(large))), rt: "S a=1", had: had("a.1", small), want: "start a"},
		{name: "30 sidecar in place", pod: pod(always, "s:x a", with("x", sized(large))), rt: "S a x", had: had("x.2", small), want: "resize x.2 memory; resize x.2 cpu; resize pod"},
		{name: "30 sidecar RestartContainer", pod: pod(always, "s:x a", with("x", sized(large, corev1.ResourceCPU))), rt: "S a x", had: had("x.2", small), want: "kill x.2 Resized; resize pod; start x"},
		{name: "30 sidecar RestartContainer, startup not run", pod: pod(always, "s:x a", with("x", sized(large, corev1.ResourceCPU)), with("x", startupProbe)), rt: "S x", probes: verdicts{}, had: had("x.1", small), want: "resize x.1 memory; resize x.1 cpu; resize pod"},
		{name: "30 sidecar spec before the resize", pod: pod(always, "s:x a", with("x", sized(large, corev1.ResourceCPU))), rt: "S a x#", had: had("x.2", small), want: "kill x.2 SpecChanged; start x"},
		{name: "30 sidecar liveness before the resize", pod: pod(always, "s:x a", with("x", sized(large, corev1.ResourceCPU)), with("x", livenessProbe)), rt: "S a x", probes: verdicts{"x.2": "l"}, had: had("x.2", small), want: "kill x.2 LivenessProbe; start x"},
		{name: "30 running init container in place", pod: pod(always, "i:x a", with("x", sized(large, corev1.ResourceCPU))), rt: "S x", had: had("x.1", small), want: "resize x.1 memory; resize x.1 cpu; resize pod"},
		{name: "30 pod level", pod: pod(always, "a b", podLevel(large), with("b", sized(small))), rt: "S b a", had: had("a.2", corev1.ResourceRequirements{}, "b.1", small, "pod", small), want: "resize a.2 memory; resize a.2 cpu; resize pod"},
		{name: "30 pod level, the same", pod: pod(always, "a", podLevel(large)), rt: "S a", had: had("a.1", corev1.ResourceRequirements{}, "pod", large), want: ""},
		{name: "30 pod over", pod: pod(never, "s:x a", with("x", sized(large))), rt: "S a=0 x", had: had("x.2", small), want: "over; kill x.2 PodOver; stop S0"},
		{name: "30 in a new sandbox", pod: pod(always, "a", with("a", sized(large))), rt: "!S a", had: had("a.1", small), want: "kill a.1 SandboxChanged; stop S0; create 1; start a"},

		{name: "container policy over the pod's", pod: pod(always, "a b", with("a", own(corev1.ContainerRestartPolicyNever))), rt: "S b a=1", want: ""},
		{name: "container policy Always under Never", pod: pod(never, "a b", with("a", own(corev1.ContainerRestartPolicyAlways))), rt: "S b a=0", want: "start a"},
		{name: "init policy Never under Always", pod: pod(always, "i:x a", with("x", own(corev1.ContainerRestartPolicyNever))), rt: "S x=1", want: "over; stop S0"},
		{name: "init policy Never under Always, sandbox stopped", pod: pod(always, "i:x a", with("x", own(corev1.ContainerRestartPolicyNever))), rt: "!S x=1", want: "over"},

		{name: "RUN-08 OnFailure, sandbox dies", pod: pod(onFailure, "a b"), rt: "!S b a=0", want: "kill b.1 SandboxChanged; stop S0; create 1; start b"},
		{name: "RUN-08 Never, sandbox dies", pod: pod(never, "a b"), rt: "!S b=1 a=0", want: "over"},
		{name: "RUN-08 Always, sandbox dies", pod: pod(always, "a"), rt: "!S a=0", want: "stop S0; create 1; start a"},

		{name: "REC-06 one runs, one unknown, one missing", pod: pod(always, "a b c"), rt: "S b? a", want: "kill b.1 UnknownState; start b; start c"},
		{name: "two running of one name", pod: pod(always, "a"), rt: "S a a", want: "kill a.2 Duplicate"},
		{name: "an older one still runs", pod: pod(always, "a"), rt: "S a=1 a", want: ""},
		{name: "an older one of unknown state", pod: pod(always, "a"), rt: "S a=1 a?", want: "kill a.2 Duplicate; start a"},
		{name: "not in the spec", pod: pod(always, "a"), rt: "S x a", want: "kill x.1 NotInSpec"},
		{name: "running in another sandbox", pod: pod(always, "a"), rt: "S1 !S0 a/0", want: "kill a.1 OtherSandbox"},
		{name: "WRK-04 deleted", pod: pod(always, "a", deleted), rt: "", want: ""},

		{name: "1 no sandbox", pod: pod(always, "a"), rt: "", box: plan.SandboxMissing, want: "create 0; start a"},
		{name: "5 several ready, the newest is not", pod: pod(always, "a"), rt: "!S2 S1 S0", box: plan.SandboxSeveral, want: "stop S2; stop S1; stop S0; create 3; start a"},
		{name: "5 several ready, other mode", pod: pod(always, "a", host), rt: "S1 S0", box: plan.SandboxSeveral, want: "stop S1; stop S0; create 2; start a"},
		{name: "5 several ready, no address", pod: pod(always, "a"), rt: "S1~ S0", box: plan.SandboxSeveral, want: "stop S1; stop S0; create 2; start a"},
		{name: "5 not ready, other mode", pod: pod(always, "a", host), rt: "!S0", box: plan.SandboxNotReady, want: "stop S0; create 1; start a"},
		{name: "5 not ready, no address", pod: pod(always, "a"), rt: "!S0~", box: plan.SandboxNotReady, want: "stop S0; create 1; start a"},
		{name: "6 other mode, no address", pod: pod(always, "a"), rt: "Sh", box: plan.SandboxNetMode, want: "stop S0; create 1; start a"},
		{name: "6 no address at all", pod: pod(always, "a"), rt: "S~", box: plan.SandboxNoAddress, want: "stop S0; create 1; start a"},
		{name: "9 Never, one ran and one did not", pod: pod(never, "a b"), rt: "!S a=0", want: "over"},
		{name: "1 the kubelet's first case", pod: pod(always, "a b c"), rt: "", want: "create 0; start a; start b; start c"},

		// Rows that tell rules apart which the ones above do not.
		{name: "two ready, the newest is not", pod: pod(always, "a", host), rt: "!S2 S1 S0", want: "stop S2; stop S1; stop S0; create 3; start a"},
		{name: "not in the spec, and elsewhere", pod: pod(always, "a"), rt: "S1 !S0 a x/0", want: "kill x.2 NotInSpec"},
		{name: "ephemeral of unknown state elsewhere", pod: pod(always, "a e:d"), rt: "S1 !S0 a d?/0", want: "kill d.2 OtherSandbox"},
		{name: "two ephemeral, the older unknown", pod: pod(always, "a e:d"), rt: "S a d d?", want: ""},
		{name: "elsewhere and one of several", pod: pod(always, "a"), rt: "S1 !S0 a a/0", want: "kill a.2 OtherSandbox"},
		{name: "ephemeral created in another sandbox", pod: pod(always, "a e:d"), rt: "S1 !S0 a d+/0", want: ""},
		{name: "runs elsewhere, spec changed", pod: pod(always, "a"), rt: "S1 !S0 a#/0", want: "kill a.1 OtherSandbox"},
		{name: "runs elsewhere, liveness failed", pod: pod(always, "a", with("a", livenessProbe)), rt: "S1 !S0 a/0", probes: verdicts{"a.1": "l"}, want: "kill a.1 OtherSandbox"},
		{name: "runs elsewhere, liveness failed, Never", pod: pod(never, "a", with("a", livenessProbe)), rt: "S1 !S0 a/0", probes: verdicts{"a.1": "l"}, want: "kill a.1 OtherSandbox"},
		{name: "runs elsewhere, startup failed", pod: pod(always, "a", with("a", startupProbe)), rt: "S1 !S0 a/0", probes: verdicts{"a.1": "s"}, want: "kill a.1 OtherSandbox"},
		{name: "runs elsewhere, startup failed, Never", pod: pod(never, "a", with("a", startupProbe)), rt: "S1 !S0 a/0", probes: verdicts{"a.1": "s"}, want: "kill a.1 OtherSandbox"},
		{name: "runs elsewhere, resized", pod: pod(always, "a", with("a", sized(large, corev1.ResourceCPU))), rt: "S1 !S0 a/0", had: had("a.1", small), want: "kill a.1 OtherSandbox"},
		{name: "unknown elsewhere", pod: pod(always, "a"), rt: "S1 !S0 a?/0", want: "kill a.1 OtherSandbox; start a"},
		{name: "spec changed, liveness failed, Never", pod: pod(never, "a", with("a", livenessProbe)), rt: "S a#", probes: verdicts{"a.1": "l"}, want: "kill a.1 SpecChanged; start a"},
		{name: "spec changed, startup failed, Never", pod: pod(never, "a", with("a", startupProbe)), rt: "S a#", probes: verdicts{"a.1": "s"}, want: "kill a.1 SpecChanged; start a"},
		{name: "spec changed, liveness failed", pod: pod(always, "a", with("a", livenessProbe)), rt: "S a#", probes: verdicts{"a.1": "l"}, want: "kill a.1 SpecChanged; start a"},
		{name: "spec changed, startup failed", pod: pod(always, "a", with("a", startupProbe)), rt: "S a#", probes: verdicts{"a.1": "s"}, want: "kill a.1 SpecChanged; start a"},
		{name: "both probes failed", pod: pod(always, "a", with("a", livenessProbe), with("a", startupProbe)), rt: "S a", probes: verdicts{"a.1": "ls"}, want: "kill a.1 LivenessProbe; start a"},
		{name: "both probes failed, Never", pod: pod(never, "a b", with("a", livenessProbe), with("a", startupProbe)), rt: "S b a", probes: verdicts{"a.2": "ls"}, want: "kill a.2 LivenessProbe"},
		{name: "startup failed, Never", pod: pod(never, "a b", with("a", startupProbe)), rt: "S b a", probes: verdicts{"a.2": "s"}, want: "kill a.2 StartupProbe"},
		{name: "liveness failed, resized, Never", pod: pod(never, "a b", with("a", livenessProbe), with("a", sized(large, corev1.ResourceCPU))), rt: "S b a", probes: verdicts{"a.2": "l"}, had: had("a.2", small), want: "kill a.2 LivenessProbe"},
		{name: "startup failed, resized, Never", pod: pod(never, "a b", with("a", startupProbe), with("a", sized(large, corev1.ResourceCPU))), rt: "S b a", probes: verdicts{"a.2": "s"}, had: had("a.2", small), want: "kill a.2 StartupProbe"},
		{name: "liveness failed, all others done, Never", pod: pod(never, "a", with("a", livenessProbe)), rt: "S a", probes: verdicts{"a.1": "l"}, want: "over; kill a.1 PodOver; stop S0"},
		{name: "startup failed, all others done, Never", pod: pod(never, "a", with("a", startupProbe)), rt: "S a", probes: verdicts{"a.1": "s"}, want: "over; kill a.1 PodOver; stop S0"},
		{name: "passed init created", pod: pod(always, "i:x i:y a"), rt: "S y x+", want: ""},
		{name: "passed init failed", pod: pod(always, "i:x i:y a"), rt: "S y x=1", want: ""},
		{name: "passed init failed, Never", pod: pod(never, "i:x i:y a"), rt: "S y x=1", want: ""},
		{name: "passed init unknown", pod: pod(always, "i:x i:y a"), rt: "S y x?", want: ""},
		{name: "passed init unknown, Never", pod: pod(never, "i:x i:y a"), rt: "S y x?", want: ""},
		{name: "passed init succeeded", pod: pod(always, "i:x i:y a"), rt: "S y x=0", want: ""},
		{name: "init runs", pod: pod(always, "i:x a"), rt: "S x", want: ""},
		{name: "init runs with another spec", pod: pod(always, "i:x a"), rt: "S x#", want: ""},
		{name: "sidecar startup failed with another spec", pod: pod(always, "s:x a", with("x", startupProbe)), rt: "S x#", probes: verdicts{"x.1": "s"}, want: "kill x.1 StartupProbe; start x"},
		{name: "sidecar startup and liveness failed", pod: pod(always, "s:x a", with("x", startupProbe), with("x", livenessProbe)), rt: "S x", probes: verdicts{"x.1": "ls"}, want: "kill x.1 StartupProbe; start x"},
		{name: "sidecar startup failed, resized", pod: pod(always, "s:x a", with("x", startupProbe), with("x", sized(large, corev1.ResourceCPU))), rt: "S x", probes: verdicts{"x.1": "s"}, had: had("x.1", small), want: "kill x.1 StartupProbe; start x"},
		{name: "sidecar not started up, other spec", pod: pod(always, "s:x a", with("x", startupProbe)), rt: "S x#", probes: verdicts{}, want: ""},
		{name: "sidecar not started up, liveness failed", pod: pod(always, "s:x a", with("x", startupProbe), with("x", livenessProbe)), rt: "S x", probes: verdicts{"x.1": "l"}, want: ""},
		{name: "sidecar spec changed and liveness failed", pod: pod(always, "s:x a", with("x", livenessProbe)), rt: "S a x#", probes: verdicts{"x.2": "l"}, want: "kill x.2 SpecChanged; start x"},
		{name: "sidecar spec changed before the pod is initialised", pod: pod(always, "s:x a"), rt: "S x#", want: "kill x.1 SpecChanged; start x; start a"},
		{name: "sidecar resized before the pod is initialised", pod: pod(always, "s:x a", with("x", sized(large, corev1.ResourceCPU))), rt: "S x", had: had("x.1", small), want: "kill x.1 Resized; resize pod; start x; start a"},
		{name: "sidecar liveness failed before the next init", pod: pod(always, "s:x i:y a", with("x", livenessProbe)), rt: "S x", probes: verdicts{"x.1": "l"}, want: "kill x.1 LivenessProbe; start x; start y"},
	}
}

// TestCompute is the golden table.
func TestCompute(t *testing.T) {
	t.Parallel()
	for _, tt := range decisions() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := plan.Compute(tt.input())
			if tt.box != "" && got.Sandbox != tt.box {
				t.Errorf("the sandbox is judged %q, want %q", got.Sandbox, tt.box)
			}
			if diff := cmp.Diff(tt.want, show(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMutations: with any rule of any table dropped, or with any two exchanged,
// the golden table fails, unless no facts there are tell the difference.
func TestMutations(t *testing.T) {
	t.Parallel()
	rows := decisions()
	all, same := plan.Mutations(), 0
	for i := range all {
		m := &all[i]
		caught := slices.ContainsFunc(rows, func(d decision) bool { return outcome(m, &d) != d.want })
		switch {
		case m.Same && caught:
			t.Errorf("%s: makes a difference that its facts do not show", m.Name)
		case m.Same:
			same++
		case !caught:
			t.Errorf("%s: no row of the table fails", m.Name)
		}
	}
	t.Logf("%d mutations, %d of them the same planner, all others caught", len(all), same)
}

// outcome is what a mutated planner does; to break down counts.
func outcome(m *plan.Mutation, d *decision) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprint("panic: ", r)
		}
	}()
	a := m.Compute(d.input())
	if d.box != "" && a.Sandbox != d.box {
		return "sandbox " + string(a.Sandbox)
	}
	return show(a)
}

func TestComputeTerminating(t *testing.T) {
	t.Parallel()
	p := pod(always, "a")
	a := plan.Compute(plan.Input{Pod: p, Runtime: rt(p, "S a=1"), Terminating: true})
	if !a.Nothing() {
		t.Errorf("a pod that is being stopped gets a plan: %s", show(a))
	}
}

// TestStartupGateWithoutProber: Runtime.Probes says whether a sidecar started.
func TestStartupGateWithoutProber(t *testing.T) {
	t.Parallel()
	p := pod(always, "s:x a", with("x", startupProbe))
	r := rt(p, "S x")
	for _, tt := range []struct {
		name, id string
		started  bool
		want     string
	}{
		{"started", "x.1", true, "start a"},
		{"not started", "x.1", false, ""},
		{"of another instance", "x.0", true, ""},
		{"no entry", "", false, "start a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := *r
			if tt.id != "" {
				r.Probes = probeResults(tt.id, tt.started)
			}
			if got := show(plan.Compute(plan.Input{Pod: p, Runtime: &r})); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func BenchmarkComputeNothing(b *testing.B) {
	p := pod(always, "a b c")
	in := plan.Input{Pod: p, Runtime: rt(p, "S c b a"), Hashes: plan.Hashes(p, hashOf)}
	b.ReportAllocs()
	for b.Loop() {
		if a := plan.Compute(in); !a.Nothing() {
			b.Fatal(show(a))
		}
	}
}

func TestComputeNothingAllocatesNothing(t *testing.T) {
	p := pod(always, "a b c")
	in := plan.Input{Pod: p, Runtime: rt(p, "S c b a"), Hashes: plan.Hashes(p, hashOf)}
	if n := testing.AllocsPerRun(100, func() { plan.Compute(in) }); n != 0 {
		t.Errorf("a plan with nothing to do makes %v allocations", n)
	}
}
