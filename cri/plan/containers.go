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
		r := p.instance(name, "")
		f := facts{found: r != nil}
		if r != nil {
			f.state, f.elsewhere = r.State, r.SandboxID != p.act.SandboxID
		}
		p.apply(decide(p.rules.ephemeral[:], f), Ephemeral, i, name, r)
	}
}

// regular plans for the regular containers of an initialised pod. When none of
// them runs or will, the pod is over and its sidecars are not restarted.
func (p *planner) regular() {
	over := true
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		r := p.instance(c.Name, "")
		f := p.facts(c, r, len(p.Pod.Spec.InitContainers)+i)
		d := decide(p.rules.regular[:], f)
		p.apply(d, Regular, i, c.Name, r)
		if d.keep && !f.elsewhere {
			p.resize(Regular, i, c, r)
		}
		over = over && !d.keep && !d.start
	}
	p.act.KillPod = over
}

// facts gathers what decides about a container that r is an instance of. hash
// is the container's place in Hashes.
func (p *planner) facts(c *corev1.Container, r *podsync.RuntimeContainer, hash int) facts {
	if r == nil {
		return facts{}
	}
	f := facts{found: true, state: r.State, elsewhere: r.SandboxID != p.act.SandboxID, again: restartsOnProbe(p.Pod, c)}
	switch r.State {
	case podsync.ContainerExited:
		f.failed = InitFailed(r)
		f.restarts = podspec.Restarts(p.Pod, c, r.ExitCode)
	case podsync.ContainerRunning:
		f.changed = p.changed(hash, r)
		f.resize = p.resizeRestarts(c, r)
		f.startup = p.startup(c, r)
		if c.LivenessProbe != nil && p.Probes != nil {
			f.liveness = p.Probes.Liveness(r.ID)
		}
	}
	return f
}

// strays kills what must not run beside the pod's own containers: all but one
// of the running instances of a name, instances of another sandbox, and
// containers that the pod does not name.
func (p *planner) strays() {
	for n, r := range p.Runtime.Containers {
		if !couldRun(r) {
			continue
		}
		f := strayFacts{kind: p.kindOf(r.Name), elsewhere: r.SandboxID != p.act.SandboxID, unknown: !r.Running()}
		f.newer = p.newerExists(n, r)
		if reason := decide(p.rules.stray[:], f); reason != "" {
			p.kill(r, reason, strayMessage(reason, r.Name))
		}
	}
}

func strayMessage(reason KillReason, name string) string {
	switch reason {
	case KillNotInSpec:
		return "Container " + name + " is not in the pod spec"
	case KillOtherSandbox:
		return "Container " + name + " belongs to an older sandbox"
	default:
		return "Container " + name + " has more than one instance"
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
