package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// Monitor remembers what the runtime holds of each pod and finds out when that
// changes: from the runtime's events, and from a periodic look at everything
// that is frequent while something changes and rare while nothing does. It is
// the agent's RuntimeView. Safe for concurrent use; no lock is held during a
// call to the runtime, so that a stuck call concerns its own pod alone.
type Monitor struct {
	r *Runtime

	mu   sync.RWMutex
	pods map[types.UID]*entry
	// listed are the fingerprints of all pods at the last finished list.
	listed   map[types.UID]uint64
	lastList time.Time // when the last finished list was done
	started  time.Time
	watchers map[int]func(types.UID)
	next     int
	strange  int // pods of others at the last list
	streams  bool
	changed  time.Time // of the last change seen
	kick     chan struct{}
}

var _ podsync.RuntimeView = (*Monitor)(nil)

// entry is what is known of one pod. Its fields are guarded by Monitor.mu.
type entry struct {
	turn chan struct{} // one inspection at a time
	pod  *podsync.RuntimePod
	// gen counts what may have changed the pod, seen is gen when pod was observed.
	gen, seen uint64
	observed  time.Time // when that observation began
	print     uint64    // its fingerprint
	// acting is above zero while a stage changes the pod, missed tells that
	// something else happened meanwhile.
	acting int
	missed bool
	// parts are what the pod consists of since it was changed by this process
	// alone, valid while gen is partsGen.
	parts    *podParts
	partsGen uint64
	// basis is the pod as it was known to be when a stage began to change it, nil
	// when that was not known.
	basis *podsync.RuntimePod
	// own are the containers that this process starts or stops by itself, so
	// that their events are no news.
	own     map[string]runtimeapi.ContainerEventType
	waiting map[string]podsync.WaitingReason
	resize  string // why a resize failed
	probes  map[string]podsync.ProbeResult
	spec    *corev1.Pod
	hashes  []uint64 // of spec
}

func newMonitor(r *Runtime) *Monitor {
	now := r.o.Clock.Now()
	return &Monitor{r: r, pods: map[types.UID]*entry{}, watchers: map[int]func(types.UID){},
		started: now, changed: now, kick: make(chan struct{}, 1)}
}

func (e *entry) clean() bool { return e.pod != nil && e.gen == e.seen }

// touch marks what is known of the pod as old.
func (e *entry) touch() { e.gen++ }

// entryLocked returns the pod's entry, made if need be.
func (m *Monitor) entryLocked(uid types.UID) *entry {
	e := m.pods[uid]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1), gen: 1}
		m.pods[uid] = e
	}
	return e
}

// cached returns the pod's state if it is known to be current, else nil.
func (m *Monitor) cached(uid types.UID) *podsync.RuntimePod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if e := m.pods[uid]; e != nil && e.clean() {
		return e.pod
	}
	return nil
}

// Observe implements podsync.RuntimeView. While nothing happened since the last
// time it returns the same pointer, makes no call and allocates nothing.
func (m *Monitor) Observe(ctx context.Context, uid types.UID) (*podsync.RuntimePod, error) {
	if p := m.cached(uid); p != nil {
		return p, nil
	}
	m.mu.Lock()
	e := m.entryLocked(uid)
	m.mu.Unlock()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("observe pod %s: %w", uid, ctx.Err())
	}
	if p := m.cached(uid); p != nil {
		return p, nil
	}
	m.mu.RLock()
	gen, old, parts := e.gen, e.pod, e.parts
	if e.partsGen != gen {
		parts = nil
	}
	m.mu.RUnlock()
	began := m.r.o.Clock.Now()
	if err := m.r.actuated.load(ctx); err != nil {
		// The annotations stand meanwhile; a resize that was done is done again.
		m.r.log.WarnContext(ctx, "records of resizes cannot be read", "err", err)
	}
	p, err := m.inspect(ctx, uid, old, parts)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("observe pod %s: %w", uid, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.r.actuated.fill(p)
	p.Waiting, p.Probes, p.ResizeError = e.waiting, e.probes, e.resize
	e.pod, e.seen, e.observed, e.print = p, gen, began, fingerprint(p)
	e.parts = nil
	for id := range e.own {
		if !holds(p, id) {
			delete(e.own, id)
		}
	}
	return p, nil
}

func holds(p *podsync.RuntimePod, id string) bool {
	for _, c := range p.Containers {
		if c.ID == id {
			return true
		}
	}
	for _, s := range p.Sandboxes {
		if s.ID == id {
			return true
		}
	}
	return false
}

// Invalidate makes the next Observe of the pod ask the runtime. Who changes a
// pod past this package's stages calls it before the change and after.
func (m *Monitor) Invalidate(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entryLocked(uid).touch()
}

// begin says that a stage is about to change the pod. Until end is called, what
// happens to the pod wakes nobody; if then the stage is not run again at once,
// whatever was not its own doing does.
func (m *Monitor) begin(uid types.UID) (end func(again bool)) {
	m.mu.Lock()
	e := m.entryLocked(uid)
	e.basis = nil
	if e.clean() && e.acting == 0 {
		e.basis = e.pod
	}
	e.touch()
	e.acting++
	m.changed = m.r.o.Clock.Now()
	m.mu.Unlock()
	m.hurry()
	return func(again bool) {
		m.mu.Lock()
		e.touch()
		e.acting--
		tell := e.missed && !again && e.acting == 0
		if e.acting == 0 {
			e.missed = false
		}
		m.mu.Unlock()
		if tell {
			m.tell(uid)
		}
	}
}

// consists says of what the pod consists after a stage has added to what it had
// observed, from, and knows all that it added: until something else happens to the pod, only how its parts
// are has to be asked, and no list of all that the runtime has. What another has
// added meanwhile is found by the next list of everything.
func (m *Monitor) consists(uid types.UID, from *podsync.RuntimePod, parts *podParts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entryLocked(uid); e.acting == 0 && e.basis == from {
		e.parts, e.partsGen = parts, e.gen
	}
}

// expect says that an event of this kind about the container is this process's
// own doing.
func (m *Monitor) expect(uid types.UID, id string, t runtimeapi.ContainerEventType) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryLocked(uid)
	if e.own == nil {
		e.own = map[string]runtimeapi.ContainerEventType{}
	}
	e.own[id] = t
}

// SetWaiting sets why containers of the pod are not running, replacing what was
// said before, and tells whether a container or a reason is new or gone. The
// sync stage calls it at the end of its run. The map must not be changed
// afterwards.
func (m *Monitor) SetWaiting(uid types.UID, w map[string]podsync.WaitingReason) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil && len(w) == 0 {
		return false
	}
	e = m.entryLocked(uid)
	if maps.Equal(e.waiting, w) {
		return false
	}
	news := !maps.EqualFunc(e.waiting, w, func(a, b podsync.WaitingReason) bool { return a.Reason == b.Reason })
	e.waiting = w
	m.renewLocked(e)
	return news
}

// SetProbe sets what the probes say of a container of the pod.
func (m *Monitor) SetProbe(uid types.UID, container string, r podsync.ProbeResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryLocked(uid)
	if e.probes[container] == r {
		return
	}
	probes := maps.Clone(e.probes)
	if probes == nil {
		probes = map[string]podsync.ProbeResult{}
	}
	probes[container] = r
	e.probes = probes
	m.renewLocked(e)
}

// setResizeError sets why a resize of the pod did not come about, "" for
// nothing, and tells whether that is news.
func (m *Monitor) setResizeError(uid types.UID, msg string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryLocked(uid)
	if e.resize == msg {
		return false
	}
	e.resize = msg
	m.renewLocked(e)
	return true
}

// renewLocked replaces the pod handed out by one with the current waiting
// reasons and probe results; what was handed out never changes.
func (m *Monitor) renewLocked(e *entry) {
	if e.pod == nil {
		return
	}
	p := *e.pod
	p.Waiting, p.Probes, p.ResizeError = e.waiting, e.probes, e.resize
	e.pod = &p
}

// hashes returns the container hashes of the pod, computed once per version.
func (m *Monitor) hashes(pod *corev1.Pod) []uint64 {
	m.mu.RLock()
	e := m.pods[pod.UID]
	if e != nil && e.spec == pod {
		defer m.mu.RUnlock()
		return e.hashes
	}
	m.mu.RUnlock()
	hs := plan.Hashes(pod, config.Hash)
	m.mu.Lock()
	defer m.mu.Unlock()
	e = m.entryLocked(pod.UID)
	e.spec, e.hashes = pod, hs
	return hs
}

// Forget implements podsync.RuntimeView.
func (m *Monitor) Forget(uid types.UID) {
	m.mu.Lock()
	delete(m.pods, uid)
	m.mu.Unlock()
	m.r.crash.forget(uid)
	m.r.pull.Forget(uid)
	m.r.forgetStop(uid)
}

// Pods implements podsync.RuntimeView: the pods of this agent's Owner.
func (m *Monitor) Pods(ctx context.Context) ([]*podsync.RuntimePod, error) {
	ctx, cancel := m.r.quick(ctx)
	defer cancel()
	l, err := m.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pods of the runtime: %w", err)
	}
	return l.pods(m.r.o.Clock.Now()), nil
}

// Healthy returns nil, or an error that says for how long the runtime has not
// answered a list. The monitor recovers by itself.
func (m *Monitor) Healthy() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	last := m.lastList
	if last.IsZero() {
		last = m.started
	}
	if d := m.r.o.Clock.Since(last); d > m.r.o.UnhealthyAfter {
		return &UnhealthyError{Since: d}
	}
	return nil
}

// UnhealthyError says that the runtime has not answered for too long.
type UnhealthyError struct{ Since time.Duration }

// Error says for how long.
func (e *UnhealthyError) Error() string {
	return fmt.Sprintf("the container runtime has not finished a list of its pods for %s", e.Since.Round(time.Second))
}

// tell wakes the pod.
func (m *Monitor) tell(uid types.UID) {
	m.mu.RLock()
	fns := make([]func(types.UID), 0, len(m.watchers))
	for _, fn := range m.watchers {
		fns = append(fns, fn)
	}
	m.mu.RUnlock()
	for _, fn := range fns {
		fn(uid)
	}
}

// hurry makes the next list come soon.
func (m *Monitor) hurry() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

var errNoStatus = errors.New("the runtime returned no status")
