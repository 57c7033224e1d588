package podsync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// state is where a worker is in its pod's life. It only ever moves down.
type state uint8

const (
	// stateTurn: another pod of the same full name has not left yet.
	stateTurn state = iota
	// stateAdmit: waiting for admission, or for what admission waits for.
	stateAdmit
	stateSync
	stateTerminating
	stateTerminated
	// stateFinished: nothing runs and nothing is held, but a source still has
	// the pod: it completed, or was rejected.
	stateFinished
	// stateCleanup: no source has the pod; what it left is being removed.
	stateCleanup
)

func (s state) String() string {
	return [...]string{"waiting for its turn", "admit", "sync", "terminating", "terminated", "finished", "cleanup"}[s]
}

func (s state) phase() Phase {
	switch s {
	case stateTurn, stateAdmit:
		return PhaseAdmit
	case stateSync:
		return PhaseSync
	case stateTerminating:
		return PhaseTerminating
	default:
		return PhaseTerminated
	}
}

// worker is the one actor of a pod UID. It has no goroutine while nothing is to
// be done. Its fields are guarded by the agent's mu.
type worker struct {
	uid      types.UID
	pod      *corev1.Pod // defaulted private copy, read-only; nil for leftovers nobody knows
	want     *corev1.Pod // as pod, with the resources that its source asks for
	resize   resizing
	source   string
	fullName string
	arrival  uint64
	restored bool
	ran      bool // containers of it could run when the agent started
	state    state
	// holds tells whether the pod counts in admission: from its admission until
	// nothing of it can run.
	holds bool
	// successor waits for this UID to be free: the pod came back while its
	// former life was ending.
	successor *arrived

	busy    bool
	pending Cause // why it is to run again; "" for not
	// soft and hard are the current run's contexts: a newer version ends soft,
	// what stops the pod ends both. nil while nothing runs.
	soft, hard *lateContext
	timer      *time.Timer
	nextRun    time.Time
	runStart   map[Topic]uint64

	termination Termination
	grace       time.Duration
	attempt     int
	last        Outcome
	lastTrace   *Trace
	since       time.Time       // of the current outcome's reason
	done        []chan struct{} // closed when nothing runs any more
	// log is the logger of runs of logPhase; whoever made the worker busy has it.
	log      *slog.Logger
	logPhase Phase

	toldMu sync.Mutex
	told   map[string]time.Time // when an event was last told; guarded by toldMu
}

type arrived struct {
	pod    *corev1.Pod
	source string
}

// causeRank orders causes by how much they tell.
func causeRank(c Cause) int {
	return slices.Index([]Cause{"", CauseResync, CauseRetry, CauseTopic, CauseRuntime, CauseUpdate, CauseCreate, CauseTerminate}, c)
}

func (w *worker) waitsFor(t Topic) bool {
	return w.last.kind == KindWait && slices.Contains(w.last.wake, t)
}

func (w *worker) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	w.nextRun = time.Time{}
}

// interrupt ends the current run, detached stages included.
func (w *worker) interrupt(cause error) {
	if w.hard != nil {
		w.hard.cancel(cause)
	}
}

func (a *Agent) wakeLocked(w *worker, c Cause) {
	if causeRank(c) > causeRank(w.pending) {
		w.pending = c
	}
	a.startLocked(w)
}

// startLocked starts a run if there is a reason for one and nothing against it.
func (a *Agent) startLocked(w *worker) {
	if w.busy || w.pending == "" || a.ctx == nil || a.stopping {
		return
	}
	if a.cfg.Runtime != nil && a.restored == nil {
		return // foundInRuntime comes back to it
	}
	switch w.state {
	case stateTurn:
		return
	case stateFinished:
		w.pending = ""
		return
	case stateAdmit:
		w.pending = ""
		w.stopTimer()
		if !slices.Contains(a.queue, w) {
			a.queue = append(a.queue, w)
		}
		a.kickAdmission()
		return
	default:
	}
	cause := w.pending
	w.pending, w.busy = "", true
	w.stopTimer()
	if w.state == stateCleanup {
		pod := w.pod // an update may come meanwhile
		a.wg.Go(func() { a.cleanup(w, pod) })
		return
	}
	soft, hard := newRunContext(a.ctx)
	w.soft, w.hard = soft, hard
	w.runStart = a.topicsOf(w)
	r := syncRun{pod: w.pod, grace: w.grace, attempt: w.attempt, cause: cause, termination: w.termination, last: w.last, resize: w.resize.verdict}
	ph := w.state.phase()
	a.wg.Go(func() {
		defer hard.cancel(nil)
		growStack(len(w.uid))
		a.run(soft, w, ph, &r)
	})
}

// growStack makes the goroutine's stack as large as a run needs, while there is
// next to nothing on it: to grow it again and again in the depth of the stages
// costs a quarter of a run that has nothing to do.
//
//go:noinline
func growStack(n int) byte {
	var room [6 << 10]byte
	return room[n%len(room)] // the compiler must not see that it is zero
}

// topicsOf remembers how often each topic had been published, so that one
// published during a run is not lost on the wait at its end.
func (a *Agent) topicsOf(w *worker) map[Topic]uint64 {
	m := w.runStart
	if m == nil {
		m = make(map[Topic]uint64, len(a.topics))
	}
	for t, n := range a.topics {
		m[t] = n
	}
	return m
}

// run is one run of one phase, outside of the lock.
func (a *Agent) run(ctx context.Context, w *worker, ph Phase, r *syncRun) {
	r.log, r.events = a.logger(w, r.pod, ph), a.recorder(w)
	s, o := a.runPhase(ctx, ph, r)
	if a.cfg.Reporter != nil && o.kind != KindCanceled {
		a.cfg.Reporter.Ended(ctx, s, ph, o)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w.busy, w.soft, w.hard = false, nil, nil
	w.lastTrace = s.Trace()
	a.settleLocked(w, ph, o, s)
	a.startLocked(w)
}

// logger returns the logger of the worker's runs of a phase; no update changes
// the pod's name. Called by whoever made the worker busy.
func (a *Agent) logger(w *worker, pod *corev1.Pod, ph Phase) *slog.Logger {
	if w.log == nil || w.logPhase != ph {
		w.log, w.logPhase = a.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", w.uid, "phase", ph), ph
	}
	return w.log
}

// runPhase runs the phase's pipeline on what the runtime holds of the pod.
func (a *Agent) runPhase(ctx context.Context, ph Phase, r *syncRun) (*Sync, Outcome) {
	s, o := a.prepare(ctx, r)
	if o.Stops() {
		return s, o
	}
	var end func(Outcome)
	if a.cfg.ObserveRun != nil {
		ctx, end = a.cfg.ObserveRun(ctx, StageInfo{Phase: ph, Index: -1}, s)
	}
	o = a.pipes.of(ph).Run(ctx, s)
	if end != nil {
		end(o)
	}
	return s, o
}

// prepare fills in what the runtime holds of the pod.
func (a *Agent) prepare(ctx context.Context, r *syncRun) (*Sync, Outcome) {
	var o Outcome
	if a.cfg.Runtime != nil {
		rp, err := a.cfg.Runtime.Observe(ctx, r.pod.UID)
		switch {
		case err == nil:
			r.runtime = rp
		case ctx.Err() != nil:
			o = canceled(context.Cause(ctx))
		default:
			o = Retry(WithReason("FailedSync", err))
		}
	}
	if rf, ok := a.cfg.Reporter.(Refresher); ok {
		r.refresh = rf.Refresh
	}
	return r.sync(), o
}

// settleLocked turns the outcome of a run into what happens next.
func (a *Agent) settleLocked(w *worker, ph Phase, o Outcome, s *Sync) {
	if w.state.phase() != ph {
		return // it moved on while it ran; the cause of that is pending
	}
	if o.kind == KindCanceled {
		if w.pending == "" && !a.stopping {
			w.pending = CauseRetry // never lose a pod, whoever canceled
		}
		return
	}
	a.noteLocked(w, ph, o)
	switch o.kind {
	case KindContinue, KindSkip:
		w.attempt = 0
		if ph != PhaseSync {
			a.advanceLocked(w)
			return
		}
		if d, ok := o.RetryAfter(); ok {
			a.laterLocked(w, d, CauseRetry)
			return
		}
		a.laterLocked(w, jitter(a.cfg.Resync), CauseResync)
	case KindWait:
		w.attempt = 0
		d, ok := o.RetryAfter()
		if !ok {
			d = jitter(a.cfg.Resync)
		}
		for _, t := range o.wake {
			if a.topics[t] != w.runStart[t] {
				d = 0
			}
		}
		a.laterLocked(w, d, CauseRetry)
	case KindRetry:
		w.attempt++
		d, ok := o.RetryAfter()
		if !ok {
			d = jitter(a.cfg.Backoff(w.attempt))
		}
		a.laterLocked(w, min(max(d, 0), a.cfg.Resync), CauseRetry)
	case KindDone:
		a.advanceLocked(w)
	case KindReject, KindFail:
		a.terminateLocked(w, Termination{Phase: corev1.PodFailed, Reason: o.Reason(), Message: o.Message()}, nil)
	case KindCanceled:
	}
}

func (a *Agent) laterLocked(w *worker, d time.Duration, c Cause) {
	if d <= 0 {
		a.wakeLocked(w, c)
		return
	}
	w.stopTimer()
	w.nextRun = time.Now().Add(d)
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if w.timer == t {
			a.wakeLocked(w, c)
		}
	})
	w.timer = t
}

// advanceLocked moves the pod to its next phase.
func (a *Agent) advanceLocked(w *worker) {
	w.attempt, w.last = 0, Outcome{}
	w.stopTimer()
	switch w.state {
	case stateSync:
		w.state = stateTerminating
		w.grace = effectiveGrace(w.pod, w.grace, nil)
	case stateTerminating:
		w.state = stateTerminated
		w.holds = false
		for _, c := range w.done {
			close(c)
		}
		w.done = nil
		a.roomFreedLocked()
	case stateTerminated:
		a.finishLocked(w)
		return
	default:
		return
	}
	a.log.Info("pod goes on", "pod", w.pod.Namespace+"/"+w.pod.Name, "uid", w.uid, "phase", w.state.phase(), "reason", w.termination.Reason)
	a.wakeLocked(w, CauseTerminate)
}

// finishLocked is reached when nothing of the pod runs and its pipelines are
// done: it rests while a source has it, and is cleaned up when none has.
func (a *Agent) finishLocked(w *worker) {
	w.holds = false
	w.stopTimer()
	for _, c := range w.done {
		close(c)
	}
	w.done = nil
	if w.termination.Deleted || w.termination.Orphan {
		w.state = stateCleanup
		a.wakeLocked(w, CauseTerminate)
		return
	}
	w.state, w.pending = stateFinished, ""
	a.roomFreedLocked()
}

func (a *Agent) roomFreedLocked() {
	a.topics[TopicRoomFreed]++
	a.reconsiderLocked()
	for _, w := range a.workers {
		if w.waitsFor(TopicRoomFreed) {
			a.wakeLocked(w, CauseTopic)
		}
	}
}

// terminateLocked makes the pod stop. It is sticky, and what a later call asks
// for is added: a deletion to an eviction, a shorter grace to a longer one.
func (a *Agent) terminateLocked(w *worker, t Termination, override *time.Duration) {
	old := w.termination
	if old.Phase != "" || w.state > stateSync {
		t.Phase, t.Reason, t.Message, t.Conditions = old.Phase, old.Reason, old.Message, old.Conditions
	}
	t.Deleted, t.Evicted, t.Orphan = t.Deleted || old.Deleted, t.Evicted || old.Evicted, t.Orphan || old.Orphan
	w.termination = t
	switch w.state {
	case stateTurn:
		a.leaveWithoutTraceLocked(w)
	case stateAdmit:
		if !w.restored {
			a.leaveWithoutTraceLocked(w)
			return
		}
		fallthrough
	case stateSync:
		w.state = stateTerminating
		w.attempt, w.last = 0, Outcome{}
		w.grace = effectiveGrace(w.pod, w.grace, override)
		w.interrupt(ErrTerminating)
		a.wakeLocked(w, CauseTerminate)
	case stateTerminating:
		if g := effectiveGrace(w.pod, w.grace, override); g < w.grace {
			w.grace = g
			w.interrupt(ErrGraceShrunk)
			a.wakeLocked(w, CauseTerminate)
		}
	case stateFinished:
		if t.Deleted {
			w.state = stateCleanup
			a.wakeLocked(w, CauseTerminate)
		}
	case stateTerminated, stateCleanup:
	}
}

// leaveWithoutTraceLocked ends a pod for which nothing was ever started.
func (a *Agent) leaveWithoutTraceLocked(w *worker) {
	w.interrupt(ErrTerminating)
	if w.termination.Deleted {
		w.state = stateCleanup
		a.wakeLocked(w, CauseTerminate)
		return
	}
	a.finishLocked(w)
}

// noteLocked remembers, logs and tells of an outcome, once per change.
func (a *Agent) noteLocked(w *worker, ph Phase, o Outcome) {
	changed := w.last.kind != o.kind || w.last.reason != o.reason || w.last.stage != o.stage
	w.last = o
	if !changed {
		return
	}
	w.since = time.Now()
	if o.kind == KindContinue || o.kind == KindSkip {
		if !o.again {
			w.well()
		}
		return
	}
	log := a.log.With("pod", w.pod.Namespace+"/"+w.pod.Name, "uid", w.uid, "phase", ph, "stage", o.stage, "kind", o.kind, "reason", o.Reason(), "message", o.Message())
	var pe *PanicError
	switch {
	case errors.As(o.err, &pe), o.kind == KindRetry:
		log.Warn("pod is tried again later")
	default:
		log.Info("pod outcome")
	}
	if o.kind == KindDone {
		return
	}
	reason := o.Reason()
	if reason == "" {
		reason = "FailedSync"
	}
	a.recorder(w).Event(w.pod, corev1.EventTypeWarning, reason, o.Message())
}
