package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// Run writes statuses to the sinks until ctx ends, then what is still unwritten
// within Options.LastFlush, and returns when every goroutine of it has. Call it
// once. Its error is always nil: writes that fail are logged and tried again.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, w := range m.writers {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	<-ctx.Done()
	if m.opts.LastFlush > 0 {
		// The time is bounded, and nobody is left who could end it sooner.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.opts.LastFlush)
		defer cancel()
		if err := m.Flush(last); err != nil {
			m.log.Warn("statuses are left unwritten", "err", err)
		}
	}
	return nil
}

// Flush writes now what is unwritten, whatever delay or backoff is pending, and
// returns what failed. It may be called beside Run and without it.
func (m *Manager) Flush(ctx context.Context) error {
	var errs []error
	for _, w := range m.writers {
		for _, uid := range w.takeAll() {
			if err := w.write(ctx, uid); err != nil {
				errs = append(errs, err)
				w.failed(uid)
			}
		}
	}
	return errors.Join(errs...)
}

// writer writes the statuses of all pods to one sink.
type writer struct {
	m    *Manager
	sink Sink
	kick chan struct{}

	mu      sync.Mutex
	due     map[types.UID]time.Time // what is to be written, and not before when
	busy    map[types.UID]bool      // what is being written by run
	last    map[types.UID]Record    // last words of forgotten pods
	targets map[types.UID]*target
}

// target is what the sink was told of one pod.
type target struct {
	mu sync.Mutex // held during a write: one at a time for each pod
	// gone: taken out of the writer's map.
	gone bool
	ref  Ref
	// touched: the sink may hold something of the pod.
	touched bool
	written uint64
	tries   int // guarded by writer.mu
}

func newWriter(m *Manager, k Sink) *writer {
	return &writer{
		m: m, sink: k, kick: make(chan struct{}, 1),
		due: map[types.UID]time.Time{}, busy: map[types.UID]bool{}, last: map[types.UID]Record{},
		targets: map[types.UID]*target{},
	}
}

// changed notes that the pod has something to be written. What is already
// waiting, for more changes or after a failure, goes on waiting as long.
func (w *writer) changed(uid types.UID) {
	w.mu.Lock()
	_, queued := w.due[uid]
	if !queued {
		w.due[uid] = w.m.opts.Clock.Now().Add(max(w.m.opts.Delay, 0))
	}
	w.mu.Unlock()
	if !queued {
		w.wake()
	}
}

func (w *writer) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// failed notes that a write is to be tried again.
func (w *writer) failed(uid types.UID) {
	w.mu.Lock()
	t := w.targets[uid]
	if t != nil {
		t.tries++
		pause := w.m.opts.RetryMin << min(t.tries-1, 16)
		if pause <= 0 || pause > w.m.opts.RetryMax {
			pause = w.m.opts.RetryMax
		}
		w.due[uid] = w.m.opts.Clock.Now().Add(pause)
	}
	w.mu.Unlock()
	w.wake()
}

// run writes what is due, each pod on a goroutine of its own, Writers at once.
func (w *writer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		uids, next := w.take(w.m.opts.Clock.Now())
		for _, uid := range uids {
			wg.Go(func() {
				err := w.write(ctx, uid)
				if err != nil {
					if ctx.Err() == nil {
						w.m.log.Warn("status not written; it will be tried again", "uid", uid, "err", err)
					}
					w.failed(uid)
				}
				w.mu.Lock()
				delete(w.busy, uid)
				w.mu.Unlock()
				w.wake()
			})
		}
		w.sleep(ctx, next)
	}
}

// sleep waits for a change, for the time given (none if zero) or for ctx to end.
func (w *writer) sleep(ctx context.Context, until time.Time) {
	if until.IsZero() {
		select {
		case <-ctx.Done():
		case <-w.kick:
		}
		return
	}
	timer := w.m.opts.Clock.NewTimer(max(until.Sub(w.m.opts.Clock.Now()), 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.kick:
	case <-timer.C():
	}
}

// take returns the pods to be written now, the longest due first and no more
// than may be written at once, and the time when the next one is due: zero when
// none is, or when a pod that is being written must end first.
func (w *writer) take(now time.Time) (uids []types.UID, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, at := range w.due {
		switch {
		case w.busy[uid]:
		case !at.After(now):
			uids = append(uids, uid)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(uids, func(a, b types.UID) int { return w.due[a].Compare(w.due[b]) })
	uids = uids[:min(len(uids), max(w.m.opts.Writers-len(w.busy), 0))]
	for _, uid := range uids {
		delete(w.due, uid)
		w.busy[uid] = true
	}
	return uids, next
}

// takeAll returns all pods that have something to be written, and those being
// written, so that Flush waits for them.
func (w *writer) takeAll() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var uids []types.UID
	for uid := range w.due {
		uids = append(uids, uid)
	}
	for uid := range w.busy {
		if _, ok := w.due[uid]; !ok {
			uids = append(uids, uid)
		}
	}
	clear(w.due)
	slices.Sort(uids)
	return uids
}

// lockTarget returns the pod's target, locked, making it when there is none.
func (w *writer) lockTarget(uid types.UID) *target {
	for {
		w.mu.Lock()
		t := w.targets[uid]
		if t == nil {
			t = &target{}
			w.targets[uid] = t
		}
		w.mu.Unlock()
		t.mu.Lock()
		if !t.gone {
			return t
		}
		t.mu.Unlock()
	}
}

// write tells the sink the newest status of the pod, or that the pod is gone.
func (w *writer) write(ctx context.Context, uid types.UID) error {
	t := w.lockTarget(uid)
	defer t.mu.Unlock()
	last, forgotten := w.takeLast(uid)
	r, alive := w.m.record(uid)
	switch {
	case alive:
		return w.patch(ctx, r, t)
	case forgotten:
		if err := w.patch(ctx, last, t); err != nil {
			w.forget(last)
			return err
		}
	}
	return w.remove(ctx, uid, t)
}

func (w *writer) patch(ctx context.Context, r Record, t *target) error {
	if r.Version <= t.written {
		return nil
	}
	t.ref, t.touched = r.Ref, true
	err := w.sink.Patch(ctx, r)
	if errors.Is(err, podsync.ErrNotFound) {
		w.m.log.Debug("status has nowhere to go", "pod", r.Namespace+"/"+r.Name, "uid", r.UID, "err", err)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("write status of pod %s (version %d, phase %s): %w", r.Ref, r.Version, r.Status.Phase, err)
	}
	t.written = r.Version
	w.succeeded(t)
	return nil
}

func (w *writer) remove(ctx context.Context, uid types.UID, t *target) error {
	if t.touched {
		if err := w.sink.Delete(ctx, t.ref); err != nil {
			return fmt.Errorf("remove status of pod %s: %w", t.ref, err)
		}
	}
	t.gone = true
	w.mu.Lock()
	delete(w.targets, uid)
	w.mu.Unlock()
	return nil
}

// forget notes the last status of a pod that is gone.
func (w *writer) forget(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[r.UID] = r
}

func (w *writer) takeLast(uid types.UID) (Record, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.last[uid]
	delete(w.last, uid)
	return r, ok
}

func (w *writer) succeeded(t *target) {
	w.mu.Lock()
	t.tries = 0
	w.mu.Unlock()
}

// restored notes that the sink holds a record of the pod; current tells whether
// it is the version given.
func (w *writer) restored(ref Ref, version uint64, current bool) {
	t := w.lockTarget(ref.UID)
	t.ref, t.touched = ref, true
	if current {
		t.written = version
	}
	t.mu.Unlock()
	if !current {
		w.changed(ref.UID)
	}
}
