package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// MinimumGrace is the least time that a container gets to stop by itself.
const MinimumGrace = 2 * time.Second

// Stop is an instance to stop and the ones that it waits for.
type Stop struct {
	// ID is the instance's, Name the container's.
	ID, Name string
	// Kind is the container's, 0 when the pod does not name it.
	Kind Kind
	// After are indexes into the same slice: it is stopped once those have
	// stopped, or when its own grace is used up.
	After []int
}

// StopOrder returns what of the pod may be running and in which order it stops:
// a sidecar waits for all containers that are not sidecars and for all later
// sidecars; everything else waits for nothing. What does not run holds nobody
// up. Without sidecars nothing waits.
func StopOrder(pod *corev1.Pod, rt *podsync.RuntimePod) []Stop {
	if rt == nil {
		return nil
	}
	p := planner{Input: Input{Pod: pod, Runtime: rt}}
	var stops []Stop
	for _, r := range rt.Containers {
		if couldRun(r) {
			stops = append(stops, Stop{ID: r.ID, Name: r.Name, Kind: p.kindOf(r.Name)})
		}
	}
	for i := range stops {
		if stops[i].Kind != Sidecar {
			continue
		}
		pos := p.initIndex(stops[i].Name)
		for j := range stops {
			if stops[j].Kind != Sidecar || p.initIndex(stops[j].Name) > pos {
				stops[i].After = append(stops[i].After, j)
			}
		}
	}
	return stops
}

func (p *planner) initIndex(name string) int {
	for i := range p.Pod.Spec.InitContainers {
		if p.Pod.Spec.InitContainers[i].Name == name {
			return i
		}
	}
	return -1
}

// Grace returns how long a container that is killed in a pod that goes on has
// to stop: the pod's deletion grace if it has one, else that of the probe that
// failed, else the pod's terminationGracePeriodSeconds; at least MinimumGrace.
// A reset of the whole pod gives MinimumGrace. c may be nil.
func Grace(pod *corev1.Pod, c *corev1.Container, r KillReason) time.Duration {
	if r == KillRestartAll {
		return MinimumGrace
	}
	var seconds *int64
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = pod.DeletionGracePeriodSeconds
	default:
		seconds = pod.Spec.TerminationGracePeriodSeconds
		if s := probeGrace(c, r); s != nil {
			seconds = s
		}
	}
	if seconds == nil {
		return MinimumGrace
	}
	return max(time.Duration(*seconds)*time.Second, MinimumGrace)
}

func probeGrace(c *corev1.Container, r KillReason) *int64 {
	var probe *corev1.Probe
	switch {
	case c == nil:
	case r == KillLiveness:
		probe = c.LivenessProbe
	case r == KillStartup:
		probe = c.StartupProbe
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}
