package podsync

import corev1 "k8s.io/api/core/v1"

// maxTold bounds what is remembered of a pod's events.
const maxTold = 64

// podEvents passes a pod's events on, and drops one that says what the last of
// its reason said already.
type podEvents struct {
	a *Agent
	w *worker
}

func (a *Agent) recorder(w *worker) EventRecorder { return &podEvents{a, w} }

// Event implements EventRecorder. It takes no lock that a stage could hold.
func (e *podEvents) Event(pod *corev1.Pod, eventType, reason, message string) {
	if e.a.cfg.Events == nil || e.repeats(reason, message) {
		return
	}
	e.a.cfg.Events.Event(pod, eventType, reason, message)
}

func (e *podEvents) repeats(reason, message string) bool {
	e.w.toldMu.Lock()
	defer e.w.toldMu.Unlock()
	if e.w.told[reason] == message {
		_, known := e.w.told[reason]
		return known && lasting(reason)
	}
	if e.w.told == nil || len(e.w.told) >= maxTold {
		e.w.told = map[string]string{}
	}
	e.w.told[reason] = message
	return false
}

// lasting tells whether a repetition says nothing new: a container that is
// started again with the same words is news, a failure that lasts is not.
func lasting(reason string) bool {
	switch reason {
	case "Created", "Started", "Killing", "Pulled", "Pulling":
		return false
	default:
		return true
	}
}
