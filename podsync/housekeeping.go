package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cleanup removes what a pod left on the node that no source has any more, and
// then forgets it. Nothing gives up: what fails is tried again.
func (a *Agent) cleanup(w *worker, pod *corev1.Pod) {
	ctx := a.ctx
	var errs []error
	if pod != nil {
		errs = append(errs, a.pipes.Admit.Undo(ctx, newSync(pod)))
	}
	for _, c := range a.cfg.Cleaners {
		if err := c.Remove(ctx, w.uid); err != nil {
			errs = append(errs, fmt.Errorf("remove %s of pod %s: %w", c.Name(), w.uid, err))
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		if a.cfg.Reporter != nil {
			a.cfg.Reporter.Forget(ctx, w.uid)
		}
		if a.cfg.Runtime != nil {
			a.cfg.Runtime.Forget(w.uid)
		}
		if a.cfg.Allocator != nil {
			err = a.cfg.Allocator.Forget(ctx, w.uid)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.busy = false
	if err != nil {
		if a.stopping {
			return
		}
		w.attempt++
		d := jitter(a.cfg.Backoff(w.attempt))
		o := Retry(err)
		if w.last.kind != KindRetry || w.last.Message() != o.Message() {
			a.log.Warn("cleaning up after a pod failed", "uid", w.uid, "err", err, "again", d)
		}
		w.last = o
		a.laterLocked(w, d, CauseRetry)
		return
	}
	a.log.Info("pod is gone", "uid", w.uid)
	a.dropLocked(w)
	if s := w.successor; s != nil {
		a.addLocked(s.source, s.pod)
	}
}

// housekeep looks for what pods left behind that nobody knows: once when every
// source was heard, and then now and again.
func (a *Agent) housekeep(ctx context.Context) {
	for {
		t := time.NewTimer(jitter(a.cfg.Housekeeping))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-a.tidyNow:
		case <-t.C:
		}
		t.Stop()
		a.tidy(ctx)
	}
}

func (a *Agent) tidy(ctx context.Context) {
	if !a.mayTidy() {
		return
	}
	// What pods hold is listed before the workers are looked at: a worker is
	// there before its pod holds anything, so that no new pod looks like an orphan.
	var found []types.UID
	for _, c := range a.cfg.Cleaners {
		uids, err := c.Pods(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.log.WarnContext(ctx, "listing what pods left failed", "kind", c.Name(), "err", err)
			}
			continue
		}
		found = append(found, uids...)
	}
	slices.Sort(found)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopping {
		return
	}
	for _, uid := range slices.Compact(found) {
		if a.workers[uid] != nil {
			continue
		}
		a.log.InfoContext(ctx, "removing what an unknown pod left", "uid", uid)
		w := &worker{uid: uid, fullName: "orphan/" + string(uid), state: stateCleanup, termination: Termination{Orphan: true}, since: time.Now()}
		a.workers[uid] = w
		delete(a.restored, uid)
		a.wakeLocked(w, CauseTerminate)
	}
}

func (a *Agent) mayTidy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.allSeenLocked() && (a.cfg.Runtime == nil || a.restored != nil)
}
