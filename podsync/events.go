package podsync

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxTold bounds what is remembered of a pod's events.
	maxTold = 64
	// quietFor is how long an event is not repeated with the same words.
	quietFor = 10 * time.Minute
)

// podEvents passes a pod's events on, and drops what was said already and still
// holds: a failure that lasts is told once, and again after quietFor or once the
// pod was well in between.
type podEvents struct {
	a *Agent
	w *worker
}

func (a *Agent) recorder(w *worker) EventRecorder { return &podEvents{a, w} }

// Event implements EventRecorder. It takes no lock that a stage could hold.
func (e *podEvents) Event(pod *corev1.Pod, eventType, reason, message string) {
	if e.a.cfg.Events == nil || (lasting(reason) && e.w.toldBefore(reason, message)) {
		return
	}
	e.a.cfg.Events.Event(pod, eventType, reason, message)
}

func (w *worker) toldBefore(reason, message string) bool {
	key, now := reason+"\n"+message, time.Now()
	w.toldMu.Lock()
	defer w.toldMu.Unlock()
	if at, ok := w.told[key]; ok && now.Sub(at) < quietFor {
		return true
	}
	if w.told == nil || len(w.told) >= maxTold {
		w.told = map[string]time.Time{}
	}
	w.told[key] = now
	return false
}

// well forgets what was told: should it happen again, it is news.
func (w *worker) well() {
	w.toldMu.Lock()
	defer w.toldMu.Unlock()
	w.told = nil
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
