package podsync

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func (a *Agent) kickAdmission() { kick(a.admitNow) }

// admitLoop judges one pod after another, so that each is judged against what
// was admitted before it.
func (a *Agent) admitLoop(ctx context.Context) {
	for {
		w, r, hold := a.nextForAdmission()
		if w != nil {
			a.admit(ctx, w, r)
			continue
		}
		if a.resizeNext(ctx) {
			continue
		}
		if hold == 0 && a.anyDeferred() {
			hold = resizeRetry
		}
		var timer <-chan time.Time
		var t *time.Timer
		if hold > 0 {
			t = time.NewTimer(hold)
			timer = t.C
		}
		select {
		case <-ctx.Done():
		case <-a.admitNow:
		case <-timer:
			a.mu.Lock()
			a.reconsiderLocked()
			a.mu.Unlock()
		}
		if t != nil {
			t.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// nextForAdmission takes the pod whose turn it is: first those that the node
// had before this process, then by creation time, then as they came. Pods that
// are new to the node are held back, for a limited time, while pods that run on
// it wait for a source that has not been heard yet.
func (a *Agent) nextForAdmission() (w *worker, r *syncRun, hold time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// A pod that was removed while it queued has moved on.
	a.queue = slices.DeleteFunc(a.queue, func(w *worker) bool { return w.state != stateAdmit })
	if a.stopping || len(a.queue) == 0 {
		return nil, nil, 0
	}
	slices.SortStableFunc(a.queue, func(x, y *worker) int {
		switch {
		case x.restored != y.restored && x.restored:
			return -1
		case x.restored != y.restored:
			return 1
		}
		return cmp.Or(x.pod.CreationTimestamp.Compare(y.pod.CreationTimestamp.Time), cmp.Compare(x.arrival, y.arrival))
	})
	w = a.queue[0]
	if !w.restored && len(a.restored) > 0 && !a.allSeenLocked() {
		if hold = time.Until(a.holdUntil); hold > 0 {
			return nil, nil, hold
		}
	}
	a.queue = a.queue[1:]
	w.busy = true
	w.runStart = a.topicsOf(w)
	r = &syncRun{pod: w.pod, grace: w.grace, attempt: w.attempt, cause: CauseCreate, last: w.last, restored: w.restored, admitted: a.admittedLocked(w)}
	return w, r, 0
}

// admittedLocked lists the pods that hold resources of the node, but for w.
func (a *Agent) admittedLocked(w *worker) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(a.workers))
	for _, o := range a.workers {
		if o != w && o.holds {
			pods = append(pods, o.pod)
		}
	}
	slices.SortFunc(pods, func(x, y *corev1.Pod) int { return cmp.Compare(x.UID, y.UID) })
	return pods
}

func (a *Agent) admit(ctx context.Context, w *worker, r *syncRun) {
	hard := newLateContext(ctx)
	defer hard.cancel(nil)
	a.mu.Lock()
	w.hard = hard
	a.mu.Unlock()
	r.log, r.events = a.logger(w, r.pod, PhaseAdmit), a.recorder(w)
	asked := r.pod
	if a.cfg.Allocator != nil {
		r.pod = a.cfg.Allocator.Allocated(ctx, asked)
	}
	s, o := a.runPhase(hard, PhaseAdmit, r)
	refused := o.kind == KindReject || o.kind == KindFail
	couldRun := s.Runtime().CouldRun()
	if a.cfg.Reporter != nil && o.kind != KindCanceled && !(refused && couldRun) {
		a.cfg.Reporter.Ended(hard, s, PhaseAdmit, o)
	}
	if (!o.Stops() || o.kind == KindDone) && a.cfg.Allocator != nil && r.pod == asked {
		a.record(ctx, r.pod)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.busy, w.hard = false, nil
	w.lastTrace = s.Trace()
	defer a.startLocked(w)
	if w.state != stateAdmit {
		return // it was removed meanwhile; that is pending
	}
	switch {
	case refused:
		a.noteLocked(w, PhaseAdmit, o)
		w.termination = Termination{Phase: corev1.PodFailed, Reason: o.Reason(), Message: o.Message()}
		if couldRun {
			// It ran before and the node no longer takes it: it must stop.
			w.state, w.holds = stateTerminating, true
			w.grace = effectiveGrace(w.pod, w.grace, nil)
			a.wakeLocked(w, CauseTerminate)
			return
		}
		a.finishLocked(w)
	case o.kind == KindContinue, o.kind == KindSkip, o.kind == KindDone:
		w.state, w.holds, w.last, w.attempt = stateSync, true, Outcome{}, 0
		w.pod = r.pod
		a.wantLocked(w, w.want)
		a.log.Info("pod admitted", "pod", w.pod.Namespace+"/"+w.pod.Name, "uid", w.uid)
		a.wakeLocked(w, CauseCreate)
	default:
		a.settleLocked(w, PhaseAdmit, o, s)
	}
}
