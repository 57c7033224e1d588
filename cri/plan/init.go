package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// initContainers plans for the init containers and tells whether the pod is
// initialised. It walks them from the last to the first: the first one found in
// the current sandbox decides what comes next, because those before it may have
// been removed from the runtime since. What is before it is through; of those
// only sidecars are kept running.
func (p *planner) initContainers() bool {
	ics := p.Pod.Spec.InitContainers
	if len(ics) == 0 {
		return true
	}
	initialized := p.regularRan()
	passed := initialized // a later init container, or a regular one, was found
	from := len(p.act.Start)
	for i := len(ics) - 1; i >= 0; i-- {
		c := &ics[i]
		r := p.instance(c.Name, p.act.SandboxID)
		f := p.facts(c, r, i)
		f.passed = passed
		kind, rules := Init, p.rules.init[:]
		if podspec.IsSidecar(c) {
			kind, rules = Sidecar, p.rules.sidecar[:]
		} else if f.failed {
			f.restarts = podspec.Restarts(p.Pod, c, failedExitCode(r))
		}
		d := decide(rules, f)
		if d.giveUp {
			p.act.KillPod = true
			return false
		}
		if d.through {
			switch {
			case i == len(ics)-1:
				initialized = true
			case !passed:
				p.start(initKind(&ics[i+1]), i+1, ics[i+1].Name)
			}
		}
		p.apply(d, kind, i, c.Name, r)
		if d.kill == "" && r != nil && r.Running() && (kind == Sidecar || !passed) {
			p.resize(kind, i, c, r)
		}
		passed = passed || r != nil
	}
	if !passed {
		p.start(initKind(&ics[0]), 0, ics[0].Name)
	}
	slices.Reverse(p.act.Start[from:])
	return initialized
}

// regularRan tells whether a regular container was started in the current
// sandbox: then the init containers are through, whatever is left of them.
func (p *planner) regularRan() bool {
	for _, r := range p.Runtime.Containers {
		if r.SandboxID != p.act.SandboxID ||
			r.State != podsync.ContainerRunning && r.State != podsync.ContainerExited {
			continue
		}
		for i := range p.Pod.Spec.Containers {
			if p.Pod.Spec.Containers[i].Name == r.Name {
				return true
			}
		}
	}
	return false
}

// InitFailed tells whether an exited init container failed. One that was killed
// for its memory did, even if the process it began with returned 0.
func InitFailed(r *podsync.RuntimeContainer) bool {
	return r.State == podsync.ContainerExited && (r.ExitCode != 0 || r.Reason == reasonOOMKilled)
}

// initGaveUp tells whether a plain init container failed for good in the
// sandbox: a new sandbox would only repeat it.
func (p *planner) initGaveUp(sandbox string) bool {
	for i := range p.Pod.Spec.InitContainers {
		c := &p.Pod.Spec.InitContainers[i]
		if podspec.IsSidecar(c) {
			continue
		}
		r := p.instance(c.Name, sandbox)
		if r != nil && InitFailed(r) &&
			!podspec.Restarts(p.Pod, c, failedExitCode(r)) {
			return true
		}
	}
	return false
}

// failedExitCode is the code that a failed container's policy is asked with.
func failedExitCode(r *podsync.RuntimeContainer) int32 {
	if r.ExitCode == 0 {
		return killedExitCode
	}
	return r.ExitCode
}

const reasonOOMKilled = "OOMKilled"

// startup returns the verdict on a running instance: Success when it counts as
// started. With no prober that is what Runtime.Probes says, and where that has
// no entry, that it runs.
func (p *planner) startup(c *corev1.Container, r *podsync.RuntimeContainer) Verdict {
	if c.StartupProbe == nil {
		return Success
	}
	if p.Probes != nil {
		return p.Probes.Startup(r.ID)
	}
	if res, ok := p.Runtime.Probes[c.Name]; ok && (res.ContainerID != r.ID || !res.Started) {
		return Unknown
	}
	return Success
}
