package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// ephemeral starts the ephemeral containers that have never run. They need no
// initialised pod, are never restarted and keep nothing alive.
func (p *planner) ephemeral() {
	for i := range p.Pod.Spec.EphemeralContainers {
		name := p.Pod.Spec.EphemeralContainers[i].Name
		switch r := p.instance(name, ""); {
		case r == nil:
			p.start(Ephemeral, i, name)
		case r.State == podsync.ContainerCreated && r.SandboxID == p.act.SandboxID:
			p.replace(Ephemeral, i, r)
		}
	}
}

// regular plans for the regular containers of an initialised pod. When none of
// them runs or will, the pod is over and its sidecars are not restarted.
func (p *planner) regular() {
	keep, start := 0, 0
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		r := p.instance(c.Name, "")
		if r == nil {
			p.start(Regular, i, c.Name)
			start++
			continue
		}
		switch r.State {
		case podsync.ContainerCreated:
			p.replace(Regular, i, r)
			start++
		case podsync.ContainerExited:
			if podspec.Restarts(p.Pod, c, r.ExitCode) {
				p.start(Regular, i, c.Name)
				start++
			}
		case podsync.ContainerRunning:
			if restart, keeps := p.running(i, r); keeps {
				keep++
			} else if restart {
				p.start(Regular, i, c.Name)
				start++
			}
		default:
			// Nobody knows whether it runs: it is killed before the next one is
			// made, whatever the policy, because nobody knows that it exited either.
			p.kill(r, KillUnknownState, "Container "+c.Name+" is in unknown state, try killing it before restart")
			p.start(Regular, i, c.Name)
			start++
		}
	}
	if keep == 0 && start == 0 {
		p.act.KillPod = true
	}
}

// running plans for a regular container that runs.
func (p *planner) running(i int, r *podsync.RuntimeContainer) (restart, keep bool) {
	c := &p.Pod.Spec.Containers[i]
	if r.SandboxID != p.act.SandboxID {
		// strays kills it; how it ended decides in the next plan.
		return false, true
	}
	restart = restartsOnProbe(p.Pod, c)
	var reason KillReason
	var msg string
	switch {
	case p.changed(len(p.Pod.Spec.InitContainers)+i, r):
		reason, msg, restart = KillSpecChanged, "Container "+c.Name+" definition changed", true
	case c.LivenessProbe != nil && p.liveness(r) == Failure:
		reason, msg = KillLiveness, "Container "+c.Name+" failed liveness probe"
	case c.StartupProbe != nil && p.startup(c, r) == Failure:
		reason, msg = KillStartup, "Container "+c.Name+" failed startup probe"
	default:
		return false, true
	}
	if restart {
		msg += ", will be restarted"
	}
	p.kill(r, reason, msg)
	return restart, false
}

// strays kills what must not run beside the pod's own containers: all but one
// of the running instances of a name, instances of another sandbox, and
// containers that the pod does not name.
func (p *planner) strays() {
	for n, r := range p.Runtime.Containers {
		if !couldRun(r) {
			continue
		}
		kind := p.kindOf(r.Name)
		switch {
		case kind == 0:
			p.kill(r, KillNotInSpec, "Container "+r.Name+" is not in the pod spec")
		case r.SandboxID != p.act.SandboxID:
			p.kill(r, KillOtherSandbox, "Container "+r.Name+" belongs to an older sandbox")
		case kind == Ephemeral && !r.Running():
		case p.newerExists(n, r):
			p.kill(r, KillDuplicate, "Container "+r.Name+" has more than one instance")
		}
	}
}

// newerExists tells whether another instance of the n-th one's container is the
// one that counts.
func (p *planner) newerExists(n int, r *podsync.RuntimeContainer) bool {
	for m, o := range p.Runtime.Containers {
		if m == n || o.Name != r.Name || o.SandboxID != p.act.SandboxID {
			continue
		}
		// The newest running one counts. An instance of unknown state counts only
		// when it is the newest and none runs.
		if o.Running() && (m < n || !r.Running()) || m < n && !r.Running() {
			return true
		}
	}
	return false
}

// kindOf returns the kind of the pod's container of that name, 0 if it has none.
func (p *planner) kindOf(name string) Kind {
	spec := &p.Pod.Spec
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return Regular
		}
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == name {
			return initKind(&spec.InitContainers[i])
		}
	}
	for i := range spec.EphemeralContainers {
		if spec.EphemeralContainers[i].Name == name {
			return Ephemeral
		}
	}
	return 0
}

// restartAll plans the reset of the whole pod when a container's exit asked for
// it: everything is killed and removed, those that asked last, so that a reset
// that was cut short is taken up again.
func (p *planner) restartAll() bool {
	spec := &p.Pod.Spec
	for i := range spec.Containers {
		if p.asksRestartAll(&spec.Containers[i]) {
			p.act.RestartAll, p.act.Source = true, spec.Containers[i].Name
			break
		}
	}
	for i := range spec.InitContainers {
		if !p.act.RestartAll && p.asksRestartAll(&spec.InitContainers[i]) {
			p.act.RestartAll, p.act.Source = true, spec.InitContainers[i].Name
		}
	}
	if !p.act.RestartAll {
		return false
	}
	for _, sources := range []bool{false, true} {
		for i := range spec.Containers {
			p.reset(&spec.Containers[i], sources)
		}
		for i := range spec.InitContainers {
			p.reset(&spec.InitContainers[i], sources)
		}
	}
	return true
}

// asksRestartAll tells whether the container's exit in the current sandbox
// matches a rule with the action RestartAllContainers.
func (p *planner) asksRestartAll(c *corev1.Container) bool {
	if len(c.RestartPolicyRules) == 0 {
		return false
	}
	r := p.instance(c.Name, p.act.SandboxID)
	if r == nil || r.State != podsync.ContainerExited {
		return false
	}
	m := podspec.RestartRule(c, r.ExitCode)
	return m != nil && m.Action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// reset kills and removes all instances of a container, if it is one of the
// sources of the reset or one of the others as asked.
func (p *planner) reset(c *corev1.Container, sources bool) {
	if p.asksRestartAll(c) != sources {
		return
	}
	for _, r := range p.Runtime.Containers {
		if r.Name != c.Name {
			continue
		}
		if couldRun(r) {
			p.kill(r, KillRestartAll, "Container "+c.Name+" is restarted with all containers of the pod")
		}
		p.act.Remove = append(p.act.Remove, Remove{ID: r.ID, Name: r.Name})
	}
}
