package probe

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/plan"
)

// Type is one of the three probes of a container.
type Type uint8

// The types, in the order in which they matter: the first gates the others.
const (
	Startup Type = iota
	Liveness
	Readiness
	numTypes
)

// String returns the type as metrics name it: "Startup", "Liveness", "Readiness".
func (t Type) String() string {
	switch t {
	case Startup:
		return "Startup"
	case Liveness:
		return "Liveness"
	default:
		return "Readiness"
	}
}

// of returns the container's probe of the type, nil if it has none.
func (t Type) of(c *corev1.Container) *corev1.Probe {
	switch t {
	case Startup:
		return c.StartupProbe
	case Liveness:
		return c.LivenessProbe
	default:
		return c.ReadinessProbe
	}
}

// state is what is known of one probe of one instance.
type state struct {
	// verdict is what counts. Unknown: nothing was said, or for an instance from
	// before this process, what was said then still holds.
	verdict plan.Verdict
	// last and count are the latest result and how often it came in a row.
	last  plan.Verdict
	count int32
	// hold: the probe is not run any more for this instance.
	hold bool
}

// began is the state of a probe of an instance that is new, or, with seen, that
// was running before this process. started tells whether it is known to have
// started by its status.
func began(t Type, seen, started bool) state {
	switch {
	case t == Liveness:
		return state{verdict: plan.Success}
	case t == Startup && seen && started:
		return state{verdict: plan.Success, hold: true}
	case t == Readiness && !seen:
		return state{verdict: plan.Failure}
	default:
		return state{}
	}
}

// next is the state after a result. An unknown one changes nothing: the probe
// could not be run.
func (s state) next(t Type, result plan.Verdict, p *corev1.Probe) state {
	if result == plan.Unknown {
		return s
	}
	if result == s.last {
		s.count++
	} else {
		s.last, s.count = result, 1
	}
	threshold := p.SuccessThreshold
	if result == plan.Failure {
		threshold = p.FailureThreshold
	}
	if s.count < max(threshold, 1) {
		return s
	}
	s.verdict = result
	// A container that is to be killed, and one that has started, need no more.
	s.hold = t == Startup || t == Liveness && result == plan.Failure
	return s
}

// period is the time between the beginnings of two runs.
func period(p *corev1.Probe) time.Duration {
	return seconds(p.PeriodSeconds, 10)
}

// timeout is how long a run may take.
func timeout(p *corev1.Probe) time.Duration {
	return seconds(p.TimeoutSeconds, 1)
}

func seconds(n, def int32) time.Duration {
	if n <= 0 {
		n = def
	}
	return time.Duration(n) * time.Second
}

// first is when a probe is run for the first time: initialDelaySeconds after the
// container started and not before now. For a container from before this process
// a part of the period is added, so that a restart does not run all probes of the
// node at once. spread is in [0, 1).
func first(now, started time.Time, p *corev1.Probe, seen bool, spread float64) time.Time {
	at := started.Add(time.Duration(max(p.InitialDelaySeconds, 0)) * time.Second)
	if at.After(now) {
		return at
	}
	if seen {
		return now.Add(time.Duration(spread * float64(period(p))))
	}
	return now
}

// again is when a probe is run next that was due at last.
func again(now, last time.Time, p *corev1.Probe) time.Time {
	if at := last.Add(period(p)); at.After(now) {
		return at
	}
	return now
}
