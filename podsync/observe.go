package podsync

import (
	"context"
	"log/slog"
	"time"
)

// LogStages is an observer that logs the end of every stage at Debug level, so
// that a person can follow one pod through the steps in their order. A nil
// logger takes the one bound to the pod.
func LogStages(log *slog.Logger) Observer {
	return func(ctx context.Context, i StageInfo, s *Sync) (context.Context, func(Outcome)) {
		l := log
		if l == nil {
			l = s.run.log
		}
		if l == nil || !l.Enabled(ctx, slog.LevelDebug) {
			return ctx, nil
		}
		start := time.Now()
		return ctx, func(o Outcome) {
			attrs := []slog.Attr{slog.String("stage", i.Name), slog.String("kind", o.Kind().String())}
			if log != nil { // the pod's own logger says these already
				attrs = append(attrs, slog.String("pod", s.Pod().Namespace+"/"+s.Pod().Name), slog.String("uid", string(s.UID())), slog.String("phase", string(i.Phase)))
			}
			if o.Reason() != "" {
				attrs = append(attrs, slog.String("reason", o.Reason()))
			}
			if m := o.Message(); m != "" {
				attrs = append(attrs, slog.String("message", m))
			}
			if i.Undo {
				attrs = append(attrs, slog.Bool("undo", true))
			}
			l.LogAttrs(ctx, slog.LevelDebug, "stage", append(attrs, slog.Duration("took", time.Since(start)))...)
		}
	}
}
