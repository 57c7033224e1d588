package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
)

// Options configures a Manager. The zero value keeps statuses in memory only.
type Options struct {
	// Sinks are written to independently: one that fails or is slow does not hold
	// up another. None is allowed; Get, List and Wait work all the same.
	Sinks []Sink
	// HostIPs returns the node's addresses, primary first. It is called often and
	// must be quick; what it returns is not changed. Default: none.
	HostIPs func() []string
	// RuntimeName returns the scheme of container ids, "containerd" for one. It
	// is asked each time, as the runtime may get known late. Default: "cri".
	RuntimeName func() string
	// Probed says that a prober fills in RuntimePod.Probes: without a verdict a
	// container with such a probe is then not ready. Default: running is ready.
	Probed bool
	// Delay is how long a change waits for others of its pod before it is
	// written, so that a burst is one write. Default 10 ms, negative for none.
	Delay time.Duration
	// Writers is how many pods are written at once to each sink. Default 4.
	Writers int
	// RetryMin and RetryMax bound the time between attempts at a write that
	// failed; it doubles from one to the other. Defaults 1 s and 1 min.
	RetryMin, RetryMax time.Duration
	// LastFlush is how long Run may go on writing what is unwritten when its
	// context has ended. Default 2 s, negative for not at all.
	LastFlush time.Duration
	// Clock is for tests; the default is the real one.
	Clock clock.Clock
	// Logger gets phase changes at Info, failed writes at Warn, the rest at Debug.
	// The default discards.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	if o.HostIPs == nil {
		o.HostIPs = func() []string { return nil }
	}
	if o.RuntimeName == nil {
		o.RuntimeName = func() string { return "" }
	}
	if o.Delay == 0 {
		o.Delay = 10 * time.Millisecond
	}
	if o.Writers <= 0 {
		o.Writers = 4
	}
	if o.RetryMin <= 0 {
		o.RetryMin = time.Second
	}
	if o.RetryMax <= 0 {
		o.RetryMax = time.Minute
	}
	if o.LastFlush == 0 {
		o.LastFlush = 2 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Manager keeps the status of every pod and writes it to the sinks. Make one
// with New. Safe for concurrent use.
type Manager struct {
	opts    Options
	log     *slog.Logger
	version atomic.Uint64
	writers []*writer

	mu      sync.RWMutex
	entries map[types.UID]*entry
	subs    map[int]func(types.UID)
	nextSub int
}

// entry is what is kept of one pod.
type entry struct {
	ref Ref

	mu sync.Mutex
	// gone: the pod was forgotten; whoever still holds the entry writes no more.
	gone bool
	// status is the last one, nil before the first; never changed in place.
	status  *corev1.PodStatus
	version uint64
	waiting Waiting
	// finished and deleting are those of the Record.
	finished, deleting bool
	wanted             corev1.PodPhase
	memo               memo
}

// memo is the part of an Input that tells whether a computation is needed again.
type memo struct {
	pod         *corev1.Pod
	runtime     *podsync.RuntimePod
	termination podsync.Termination
	waiting     Waiting
	resize      podsync.Resize
	hostIPs     []string
	stopping    bool
	terminal    bool
}

func (a *memo) same(b *memo) bool {
	return a.pod == b.pod && a.runtime == b.runtime && a.stopping == b.stopping && a.terminal == b.terminal &&
		a.waiting == b.waiting && a.resize == b.resize && sameTermination(&a.termination, &b.termination) && slices.Equal(a.hostIPs, b.hostIPs)
}

func sameTermination(a, b *podsync.Termination) bool {
	return a.Deleted == b.Deleted && a.Orphan == b.Orphan && a.Evicted == b.Evicted && a.Phase == b.Phase &&
		a.Reason == b.Reason && a.Message == b.Message && slices.Equal(a.Conditions, b.Conditions)
}

// New makes a Manager. It writes nothing before Run or Flush is called.
func New(o Options) *Manager {
	o.setDefaults()
	m := &Manager{opts: o, log: o.Logger, entries: map[types.UID]*entry{}, subs: map[int]func(types.UID){}}
	for _, k := range o.Sinks {
		m.writers = append(m.writers, newWriter(m, k))
	}
	return m
}

// Get returns the pod's last status; ok is false when there is none.
func (m *Manager) Get(uid types.UID) (s corev1.PodStatus, ok bool) {
	r, ok := m.record(uid)
	if !ok {
		return s, false
	}
	return *r.Status.DeepCopy(), true
}

// List returns the last status of every pod, by namespace, name and UID.
func (m *Manager) List() []Record {
	m.mu.RLock()
	uids := make([]types.UID, 0, len(m.entries))
	for uid := range m.entries {
		uids = append(uids, uid)
	}
	m.mu.RUnlock()
	out := make([]Record, 0, len(uids))
	for _, uid := range uids {
		if r, ok := m.record(uid); ok {
			out = append(out, copyRecord(r))
		}
	}
	slices.SortFunc(out, byRef)
	return out
}

// Subscribe calls fn after each change of a pod's status, and when a pod was
// forgotten, on the goroutine of whoever made the change. fn must not block and
// must not call Subscribe. The returned function ends the subscription.
func (m *Manager) Subscribe(fn func(uid types.UID)) (cancel func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.nextSub
	m.nextSub++
	m.subs[id] = fn
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.subs, id)
	}
}

// Wait returns the first status of the pod, from the present one on, that ok
// accepts. A pod that is not known yet is waited for. It fails when ctx ends,
// with the status there was.
func (m *Manager) Wait(ctx context.Context, uid types.UID, ok func(corev1.PodStatus) bool) (corev1.PodStatus, error) {
	kick := make(chan struct{}, 1)
	defer m.Subscribe(func(changed types.UID) {
		if changed == uid {
			select {
			case kick <- struct{}{}:
			default:
			}
		}
	})()
	for {
		s, known := m.Get(uid)
		if known && ok(s) {
			return s, nil
		}
		select {
		case <-kick:
		case <-ctx.Done():
			return s, fmt.Errorf("wait for the status of pod %s, last in phase %q: %w", uid, s.Phase, context.Cause(ctx))
		}
	}
}

// Resend has the pod's status written again although it did not change: a place
// for it was found, or somebody else wrote to it. It returns at once; a pod that
// is not known is left alone.
func (m *Manager) Resend(uid types.UID) {
	m.mu.RLock()
	e := m.entries[uid]
	m.mu.RUnlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	known := e.status != nil && !e.gone
	if known {
		e.version = m.version.Add(1)
	}
	e.mu.Unlock()
	if !known {
		return
	}
	for _, w := range m.writers {
		w.changed(uid)
	}
}

// Restore takes over what the sinks that are Loaders hold, so that the pods'
// next statuses go on from there. Call it once, before any pod is published. What
// cannot be loaded is in the error and keeps nothing else from being used.
func (m *Manager) Restore(ctx context.Context) error {
	var errs []error
	for _, w := range m.writers {
		l, ok := w.sink.(Loader)
		if !ok {
			continue
		}
		records, err := l.Load(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("restore statuses: %w", err))
		}
		for _, r := range records {
			m.restore(w, r)
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) restore(w *writer, r Record) {
	m.mu.Lock()
	e := m.entries[r.UID]
	if e == nil {
		e = &entry{ref: r.Ref, status: r.Status.DeepCopy(), version: m.version.Add(1)}
		m.entries[r.UID] = e
	}
	m.mu.Unlock()
	e.mu.Lock()
	version, same := e.version, equalStatus(e.status, &r.Status)
	e.mu.Unlock()
	w.restored(r.Ref, version, same)
	m.tell(r.UID) // who waits for the status may have begun before it was loaded
}

// record returns the pod's status as the sinks get it.
func (m *Manager) record(uid types.UID) (Record, bool) {
	m.mu.RLock()
	e := m.entries[uid]
	m.mu.RUnlock()
	if e == nil {
		return Record{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == nil {
		return Record{}, false
	}
	return e.record(), true
}

// record is the entry, which is locked and has a status, as a Record.
func (e *entry) record() Record {
	return Record{Ref: e.ref, Status: *e.status, Version: e.version, Finished: e.finished, Deleting: e.deleting}
}

// lock returns the pod's entry, locked, making it when there is none.
func (m *Manager) lock(pod *corev1.Pod) *entry {
	for {
		m.mu.RLock()
		e := m.entries[pod.UID]
		m.mu.RUnlock()
		if e == nil {
			m.mu.Lock()
			if e = m.entries[pod.UID]; e == nil {
				e = &entry{ref: Ref{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}}
				m.entries[pod.UID] = e
			}
			m.mu.Unlock()
		}
		e.mu.Lock()
		if !e.gone {
			return e
		}
		e.mu.Unlock()
	}
}

// view is what a stage needs to know of a computed status.
type view struct {
	// wanted is the phase, were none held back.
	wanted corev1.PodPhase
	start  *metav1.Time
	// stopping: the pod is being stopped, for whatever reason.
	stopping bool
}

// update computes the pod's status anew if anything changed that it is made of.
func (m *Manager) update(s *podsync.Sync, stopping, terminal bool) view {
	pod := s.Pod()
	e := m.lock(pod)
	t := s.Termination()
	key := memo{
		pod: pod, runtime: s.Runtime(), termination: t, waiting: e.waiting, resize: s.Resize(), hostIPs: m.opts.HostIPs(),
		stopping: stopping || terminal || t.Deleted || t.Evicted || t.Phase != "", terminal: terminal,
	}
	changed := false
	if !e.memo.same(&key) {
		changed = m.compute(e, &key, s.Now())
	}
	v := view{wanted: e.wanted, stopping: key.stopping}
	if e.status != nil {
		v.start = e.status.StartTime
	}
	e.mu.Unlock()
	if changed {
		m.announce(pod.UID)
	}
	return v
}

// compute makes the status of an entry, which is locked, and tells whether it
// changed.
func (m *Manager) compute(e *entry, key *memo, now time.Time) bool {
	next, wanted := compute(&Input{
		Pod: key.pod, Runtime: key.runtime, Previous: e.status, Now: metav1.NewTime(now),
		Terminating: key.stopping, Terminal: key.terminal, Termination: key.termination,
		Static: IsStatic(key.pod), Waiting: key.waiting, Resize: key.resize, Probed: m.opts.Probed,
		HostIPs: key.hostIPs, RuntimeName: m.opts.RuntimeName(),
	})
	e.memo, e.wanted = *key, wanted
	return m.set(e, &next, key.pod.DeletionTimestamp != nil)
}

// set puts a status into an entry, which is locked, and tells whether that
// changed anything that the sinks are to know.
func (m *Manager) set(e *entry, next *corev1.PodStatus, deleting bool) bool {
	if e.status != nil && e.deleting == deleting && equalStatus(e.status, next) {
		return false
	}
	from := corev1.PodPhase("")
	if e.status != nil {
		from = e.status.Phase
	}
	if from != next.Phase {
		m.log.Info("pod phase changed", "pod", e.ref.Namespace+"/"+e.ref.Name, "uid", e.ref.UID,
			"from", from, "to", next.Phase, "reason", next.Reason)
	}
	e.status, e.deleting, e.version = next, deleting, m.version.Add(1)
	return true
}

// equalStatus compares what would be sent: the serialised form, whose map order
// is fixed and in which nil and empty are the same. It takes a tenth of the time
// of a comparison by reflection.
func equalStatus(a, b *corev1.PodStatus) bool {
	if a.Size() != b.Size() {
		return false
	}
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	if errX != nil || errY != nil {
		return apiequality.Semantic.DeepEqual(a, b)
	}
	return bytes.Equal(x, y)
}

// announce tells the writers and the subscribers of a change. No lock is held.
func (m *Manager) announce(uid types.UID) {
	for _, w := range m.writers {
		w.changed(uid)
	}
	m.tell(uid)
}

// tell calls the subscribers. No lock is held.
func (m *Manager) tell(uid types.UID) {
	m.mu.RLock()
	fns := make([]func(types.UID), 0, len(m.subs))
	for _, fn := range m.subs {
		fns = append(fns, fn)
	}
	m.mu.RUnlock()
	for _, fn := range fns {
		fn(uid)
	}
}
