package podsync

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// minGrace is the least that a pod gets to stop in: a deletion with grace 0 is
// carried out with it.
const minGrace = time.Second

// effectiveGrace returns how long a pod has to stop. current is what it had so
// far (zero when it was not stopping yet), override what a kill asks for (nil
// for nothing). Among the current value, the deletion's and the override the
// smallest wins, so that grace only ever shrinks; the spec's own counts when
// there is none of them.
func effectiveGrace(p *corev1.Pod, current time.Duration, override *time.Duration) time.Duration {
	g := current
	shrink := func(d time.Duration) {
		d = max(d, minGrace)
		if g == 0 || d < g {
			g = d
		}
	}
	if s := p.DeletionGracePeriodSeconds; s != nil && p.DeletionTimestamp != nil {
		shrink(time.Duration(*s) * time.Second)
	}
	if override != nil {
		shrink(*override)
	}
	if g == 0 {
		if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
			shrink(time.Duration(*s) * time.Second)
		}
	}
	return max(g, minGrace)
}
