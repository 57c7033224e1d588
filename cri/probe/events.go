package probe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/plan"
)

// tellLocked returns what tells people of a result, nil when there is nothing to
// tell or it was told a moment ago.
func (m *Manager) tellLocked(p *probe, res Result, err error) func() {
	if m.o.Events == nil {
		return nil
	}
	reason, text := ReasonUnhealthy, ""
	switch {
	case err != nil:
		text = fmt.Sprintf("%s probe errored and resulted in unknown state: %v", p.t, err)
	case res.Verdict == plan.Failure:
		text = fmt.Sprintf("%s probe failed: %s", p.t, res.Message)
	case res.Warning:
		reason, text = ReasonProbeWarning, fmt.Sprintf("%s probe warning: %s", p.t, res.Message)
	default:
		p.told = "" // should it fail again, it is news
		return nil
	}
	now := m.o.Clock.Now()
	if text == p.told && now.Sub(p.toldAt) < quiet {
		return nil
	}
	p.told, p.toldAt = text, now
	pod := p.c.pod.spec
	return func() { m.o.Events.Event(pod, corev1.EventTypeWarning, reason, text) }
}
