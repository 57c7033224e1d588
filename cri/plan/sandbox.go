package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// SandboxVerdict says whether a pod's sandbox can be kept, and if not, why.
type SandboxVerdict string

// The verdicts, in the order in which they are looked for.
const (
	SandboxKept      SandboxVerdict = ""
	SandboxMissing   SandboxVerdict = "NoSandbox"
	SandboxSeveral   SandboxVerdict = "SeveralReady"
	SandboxNotReady  SandboxVerdict = "NotReady"
	SandboxNetMode   SandboxVerdict = "NetworkModeChanged"
	SandboxNoAddress SandboxVerdict = "NoIP"
)

// Sandbox judges the pod's sandboxes. It returns the verdict, the attempt that
// the next sandbox would have, and the id of the newest one: "" when there is
// none or when it is in the wrong network, so that nobody is told that
// "the sandbox changed". A sandbox whose network is not reported is kept.
func Sandbox(pod *corev1.Pod, rt *podsync.RuntimePod) (v SandboxVerdict, attempt uint32, id string) {
	rules := sandboxRules()
	return judgeSandbox(rules[:], pod, rt)
}

func judgeSandbox(rules []rule[sandboxFacts, SandboxVerdict], pod *corev1.Pod, rt *podsync.RuntimePod) (v SandboxVerdict, attempt uint32, id string) {
	f := sandboxFacts{none: rt == nil || len(rt.Sandboxes) == 0}
	if !f.none {
		newest, ready := rt.Sandboxes[0], 0
		for _, s := range rt.Sandboxes {
			if s.Ready {
				ready++
			}
		}
		attempt, id = newest.Attempt, newest.ID
		f.several = ready > 1
		f.notReady = !newest.Ready
		f.otherMode = newest.HostNetwork != pod.Spec.HostNetwork
		f.noAddress = !pod.Spec.HostNetwork && newest.NetworkKnown && len(newest.IPs) == 0
	}
	v = decide(rules, f)
	if v != SandboxKept && !f.none {
		attempt++
	}
	if v == SandboxNetMode {
		id = ""
	}
	return v, attempt, id
}

// sandbox fills in what is to happen to the sandbox.
func (p *planner) sandbox() {
	p.act.Sandbox, p.act.Attempt, p.act.SandboxID = judgeSandbox(p.rules.sandbox[:], p.Pod, p.Runtime)
	if p.act.Sandbox != SandboxKept {
		p.act.CreateSandbox, p.act.KillPod = true, true
	}
}

// newSandbox plans for a pod that has no usable sandbox: stop all of it, and
// unless it is over begin again.
func (p *planner) newSandbox() {
	regular, any := p.ran()
	var first []Start
	for i := range p.Pod.Spec.Containers {
		if c := &p.Pod.Spec.Containers[i]; p.restartsInNewSandbox(c) {
			first = append(first, Start{Kind: Regular, Index: i, Name: c.Name})
		}
	}
	over := decide(p.rules.over[:], endFacts{
		never: p.Pod.Spec.RestartPolicy == corev1.RestartPolicyNever, another: p.act.Attempt != 0, ran: any,
		gaveUp: len(p.Runtime.Sandboxes) > 0 && p.initGaveUp(p.Runtime.Sandboxes[0].ID),
		starts: len(first) > 0, regular: regular,
	})
	p.act.CreateSandbox = !over
	switch {
	case over:
		p.killPod(KillPodOver, messagePodOver)
		return
	case len(p.Runtime.Sandboxes)+len(p.Runtime.Containers) > 0:
		p.killPod(KillSandboxChanged, "Stopping the container: the pod gets a new sandbox")
	}
	if len(p.Pod.Spec.InitContainers) > 0 {
		c := &p.Pod.Spec.InitContainers[0]
		p.start(initKind(c), 0, c.Name)
		return
	}
	p.act.Start = first
	p.act.Initialized = true
}

// ran tells whether a regular container exists in the runtime, and whether any
// container has ever run.
func (p *planner) ran() (regular, any bool) {
	for _, c := range p.Runtime.Containers {
		if c.State != podsync.ContainerCreated {
			any = true
		}
		for i := range p.Pod.Spec.Containers {
			regular = regular || p.Pod.Spec.Containers[i].Name == c.Name
		}
	}
	return regular, any
}

// restartsInNewSandbox tells whether a regular container is to run again. One
// that runs now ends with its sandbox, which its policy sees as a failure; so
// the answer is the same before and after it was killed.
func (p *planner) restartsInNewSandbox(c *corev1.Container) bool {
	r := p.instance(c.Name, "")
	if r == nil || r.State == podsync.ContainerCreated {
		return true
	}
	code := r.ExitCode
	if couldRun(r) {
		code = killedExitCode
	}
	return podspec.Restarts(p.Pod, c, code)
}

// killedExitCode is what a container that was killed exits with: 128+SIGKILL.
const killedExitCode = 137
