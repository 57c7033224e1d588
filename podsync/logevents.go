package podsync

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
)

// LogEvents returns an EventRecorder that logs: Warning events at Warn, Normal
// ones at Info.
func LogEvents(log *slog.Logger) EventRecorder { return logEvents{log} }

type logEvents struct{ log *slog.Logger }

func (l logEvents) Event(p *corev1.Pod, eventType, reason, message string) {
	f := l.log.Info
	if eventType == corev1.EventTypeWarning {
		f = l.log.Warn
	}
	f("event", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "reason", reason, "message", message)
}
