package probe

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

const (
	// defaultWorkers is how many probes run at once.
	defaultWorkers = 64
	// tries is how often a probe that cannot be run is tried at once.
	tries = 3
	// seenBefore is how much older than this process a container has to be, to
	// count as one from before.
	seenBefore = 10 * time.Second
	// quiet is how long a failure with the same words is not told again.
	quiet = time.Minute
)

// The reasons of the events, the kubelet's.
const (
	ReasonUnhealthy    = "Unhealthy"
	ReasonProbeWarning = "ProbeWarning"
)

// Options are what a Manager is made of. Prober is required.
type Options struct {
	// Prober runs single probes.
	Prober Prober
	// Changed is called when the verdicts on an instance changed: the status is
	// to follow. It must not block.
	Changed func(uid types.UID, container string, r podsync.ProbeResult)
	// Wake is called after Changed, and when a container is to be killed, so that
	// the pod is looked at. It must not block.
	Wake func(uid types.UID)
	// Previous returns the pod's last status, from before a restart too; nil
	// knows none. An instance that had started need not do so again. It must not
	// call the Manager.
	Previous func(uid types.UID) (corev1.PodStatus, bool)
	// HostIP is the address of pods on the host's network; nil is "127.0.0.1".
	HostIP func() string
	// Events takes the events Unhealthy and ProbeWarning; nil drops them.
	Events podsync.EventRecorder
	// Observe is called after each run with how it ended and how long it took;
	// nil for none. It must not block.
	Observe func(o Observation)
	// Workers is how many probes run at once; default 64.
	Workers int
	// Clock is for tests; nil is the real one.
	Clock clock.WithTicker
	// Spread is for tests: it returns numbers in [0, 1); nil is random.
	Spread func() float64
	// Logger takes the log; nil discards.
	Logger *slog.Logger
}

// Observation is one run of a probe.
type Observation struct {
	// Pod and Container say whose probe it was, Type which.
	Pod       *corev1.Pod
	Container string
	Type      Type
	// Result is what it found; Unknown when it could not be run.
	Result plan.Verdict
	// Took is its duration.
	Took time.Duration
}

// ResultWord is the result as the kubelet's metrics name it: "successful",
// "failed" or "unknown".
func (o Observation) ResultWord() string {
	switch o.Result {
	case plan.Success:
		return "successful"
	case plan.Failure:
		return "failed"
	default:
		return "unknown"
	}
}

// Manager runs the probes of all pods. Make one with New, tell it of pods by its
// stages or by Watch, Stopping and Forget, and Run it. Safe for concurrent use.
type Manager struct {
	o       Options
	log     *slog.Logger
	started time.Time
	kick    chan struct{}
	emitMu  sync.Mutex // one Changed at a time, so that the last one holds

	mu      sync.RWMutex
	pods    map[types.UID]*pod
	byID    map[string]*container
	queue   queue
	running int
}

var _ plan.Probes = (*Manager)(nil)

// pod is a pod that has probes.
type pod struct {
	spec       *corev1.Pod
	runtime    *podsync.RuntimePod
	stopping   bool
	ip         string
	containers map[string]*container
}

// container is a container with probes and its instance that runs.
type container struct {
	pod    *pod
	spec   *corev1.Container
	id     string
	since  time.Time
	seen   bool // it ran before this process
	probes [numTypes]*probe
}

// probe is one probe of one instance.
type probe struct {
	c     *container
	t     Type
	spec  *corev1.Probe
	state state
	due   time.Time
	index int // in the queue; -1 when it is not
	// busy: it runs now. gone: its instance is not of interest any more.
	busy, gone bool
	told       string
	toldAt     time.Time
}

// New makes a Manager.
func New(o Options) (*Manager, error) {
	if o.Prober == nil {
		return nil, errors.New("probe: Options.Prober is required")
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Spread == nil {
		o.Spread = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{
		o: o, log: o.Logger, started: o.Clock.Now(), kick: make(chan struct{}, 1),
		pods: map[types.UID]*pod{}, byID: map[string]*container{},
	}, nil
}

// Liveness implements plan.Probes.
func (m *Manager) Liveness(containerID string) plan.Verdict { return m.verdict(containerID, Liveness) }

// Startup implements plan.Probes.
func (m *Manager) Startup(containerID string) plan.Verdict { return m.verdict(containerID, Startup) }

func (m *Manager) verdict(id string, t Type) plan.Verdict {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if c := m.byID[id]; c != nil && c.probes[t] != nil {
		return c.probes[t].state.verdict
	}
	return plan.Unknown
}

// Has tells whether any container of the pod that is kept running has a probe.
func Has(p *corev1.Pod) bool {
	for i := range p.Spec.InitContainers {
		if hasProbe(&p.Spec.InitContainers[i]) {
			return true
		}
	}
	for i := range p.Spec.Containers {
		if hasProbe(&p.Spec.Containers[i]) {
			return true
		}
	}
	return false
}

func hasProbe(c *corev1.Container) bool {
	return c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil
}

// Watch takes in a pod and what the runtime holds of it. Probes of instances that
// run are begun, those of instances that ended are dropped. It makes no call, and
// is called again with every change.
func (m *Manager) Watch(p *corev1.Pod, rp *podsync.RuntimePod) {
	if !Has(p) {
		return
	}
	m.mu.Lock()
	e := m.pods[p.UID]
	if e == nil {
		e = &pod{containers: map[string]*container{}}
		m.pods[p.UID] = e
	}
	if e.spec == p && e.runtime == rp {
		m.mu.Unlock()
		return // nothing is new
	}
	e.spec, e.runtime, e.ip = p, rp, m.address(p, rp)
	var fresh []*container
	each(p, func(spec *corev1.Container) {
		inst := runningInstance(rp, spec.Name)
		c := e.containers[spec.Name]
		if c != nil && (inst == nil || inst.ID != c.id) {
			m.dropLocked(c)
			c = nil
		}
		if inst == nil {
			return
		}
		if c == nil {
			c = m.addLocked(e, spec, inst)
			fresh = append(fresh, c)
		}
		m.followLocked(c, spec)
	})
	m.mu.Unlock()
	for _, c := range fresh {
		m.emit(c)
	}
	m.wakeLoop()
}

// each calls fn for the containers that may have probes and do.
func each(p *corev1.Pod, fn func(*corev1.Container)) {
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; hasProbe(c) {
			fn(c)
		}
	}
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; hasProbe(c) {
			fn(c)
		}
	}
}

// runningInstance is the newest instance of the container if it runs.
func runningInstance(rp *podsync.RuntimePod, name string) *podsync.RuntimeContainer {
	if rp == nil {
		return nil
	}
	for _, c := range rp.Containers { // newest first
		if c.Name == name {
			if c.State == podsync.ContainerRunning {
				return c
			}
			return nil
		}
	}
	return nil
}

func (m *Manager) address(p *corev1.Pod, rp *podsync.RuntimePod) string {
	if p.Spec.HostNetwork {
		if m.o.HostIP != nil {
			if ip := m.o.HostIP(); ip != "" {
				return ip
			}
		}
		return "127.0.0.1"
	}
	if rp != nil && len(rp.IPs) > 0 {
		return rp.IPs[0]
	}
	return ""
}

// addLocked begins with an instance.
func (m *Manager) addLocked(e *pod, spec *corev1.Container, inst *podsync.RuntimeContainer) *container {
	c := &container{pod: e, spec: spec, id: inst.ID, since: inst.StartedAt, seen: inst.StartedAt.Before(m.started.Add(-seenBefore))}
	e.containers[spec.Name], m.byID[c.id] = c, c
	had := c.seen && m.hadStarted(e.spec.UID, c)
	for t := range numTypes {
		if p := t.of(spec); p != nil {
			c.probes[t] = &probe{c: c, t: t, spec: p, state: began(t, c.seen, had), index: -1}
		}
	}
	return c
}

// hadStarted tells whether this very instance was said to have started, before
// this process began.
func (m *Manager) hadStarted(uid types.UID, c *container) bool {
	if m.o.Previous == nil {
		return false
	}
	s, ok := m.o.Previous(uid)
	is := func(st corev1.ContainerStatus) bool {
		return st.Name == c.spec.Name && strings.HasSuffix(st.ContainerID, "://"+c.id) && st.Started != nil && *st.Started
	}
	return ok && (slices.ContainsFunc(s.ContainerStatuses, is) || slices.ContainsFunc(s.InitContainerStatuses, is))
}

// followLocked takes in a version of the spec, and has the probes run that may.
func (m *Manager) followLocked(c *container, spec *corev1.Container) {
	c.spec = spec
	for t := range numTypes {
		p := c.probes[t]
		if p == nil {
			continue
		}
		if now := t.of(spec); now != nil {
			p.spec = now
		}
	}
	m.scheduleLocked(c)
}

// scheduleLocked queues the probes of an instance that may run and are not
// queued, and takes out those that may not.
func (m *Manager) scheduleLocked(c *container) {
	now := m.o.Clock.Now()
	for t := range numTypes {
		p := c.probes[t]
		if p == nil {
			continue
		}
		switch {
		case !c.mayRun(t):
			m.unqueueLocked(p)
		case p.index < 0 && !p.busy:
			p.due = first(now, c.since, p.spec, c.seen, m.o.Spread())
			heap.Push(&m.queue, p)
		}
	}
}

// mayRun tells whether a probe is to be run now.
func (c *container) mayRun(t Type) bool {
	p := c.probes[t]
	switch {
	case p.gone || p.state.hold:
		return false
	case t != Readiness && (c.pod.stopping || c.pod.spec.DeletionTimestamp != nil):
		return false // what is being stopped is not killed for its health
	case t == Startup:
		return true
	default:
		s := c.probes[Startup]
		return s == nil || s.state.verdict == plan.Success
	}
}

func (m *Manager) unqueueLocked(p *probe) {
	if p.index >= 0 {
		heap.Remove(&m.queue, p.index)
	}
}

func (m *Manager) dropLocked(c *container) {
	for _, p := range c.probes {
		if p != nil {
			p.gone = true
			m.unqueueLocked(p)
		}
	}
	delete(m.byID, c.id)
	delete(c.pod.containers, c.spec.Name)
}

// Stopping takes in that the pod is being stopped: liveness and startup probes
// end, readiness goes on until the containers have ended.
func (m *Manager) Stopping(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil || e.stopping {
		return
	}
	e.stopping, e.runtime = true, nil
	for _, c := range e.containers {
		m.scheduleLocked(c)
	}
}

// Forget drops the pod.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[uid]
	if e == nil {
		return
	}
	for _, c := range e.containers {
		m.dropLocked(c)
	}
	delete(m.pods, uid)
}

func (m *Manager) wakeLoop() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// Run runs probes when they are due until ctx ends, then returns nil once those
// under way have ended.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := m.o.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, any := m.start(ctx, &wg)
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		var due <-chan time.Time
		if any {
			timer.Reset(max(wait, 0))
			due = timer.C()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.kick:
		case <-due:
		}
	}
}

// start starts what is due, and returns how long the next one has time. any is
// false when there is none, or when one must end before another can begin.
func (m *Manager) start(ctx context.Context, wg *sync.WaitGroup) (wait time.Duration, any bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Clock.Now()
	for m.running < m.o.Workers {
		at, ok := m.queue.next()
		if !ok {
			return 0, false
		}
		if at.After(now) {
			return at.Sub(now), true
		}
		p := heap.Pop(&m.queue).(*probe)
		p.busy = true
		m.running++
		r := Request{Pod: p.c.pod.spec, Container: p.c.spec, ContainerID: p.c.id, IP: p.c.pod.ip, Type: p.t, Probe: p.spec}
		wg.Go(func() { m.run(ctx, p, r) })
	}
	return 0, false
}

// run runs a probe and takes in what it found.
func (m *Manager) run(ctx context.Context, p *probe, r Request) {
	began := m.o.Clock.Now()
	res, err := m.attempt(ctx, r)
	if m.o.Observe != nil && ctx.Err() == nil {
		m.o.Observe(Observation{Pod: r.Pod, Container: r.Container.Name, Type: r.Type, Result: res.Verdict, Took: m.o.Clock.Since(began)})
	}
	m.mu.Lock()
	m.running--
	p.busy = false
	if p.gone || ctx.Err() != nil {
		m.mu.Unlock()
		m.wakeLoop()
		return
	}
	before := p.state
	p.state = before.next(p.t, res.Verdict, p.spec)
	if p.c.mayRun(p.t) {
		p.due = again(m.o.Clock.Now(), p.due, p.spec)
		heap.Push(&m.queue, p)
	}
	changed := before.verdict != p.state.verdict
	if changed && p.t == Startup {
		m.scheduleLocked(p.c)
	}
	tell := m.tellLocked(p, res, err)
	c := p.c
	m.mu.Unlock()
	m.wakeLoop()
	if tell != nil {
		tell()
	}
	if changed {
		m.log.InfoContext(ctx, "probe verdict changed", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "uid", r.Pod.UID,
			"container", r.Container.Name, "probe", p.t.String(), "verdict", word(p.state.verdict), "message", res.Message)
		m.emit(c)
		if m.o.Wake != nil {
			m.o.Wake(r.Pod.UID)
		}
	}
}

// attempt runs the probe within its time; what cannot be run is tried again.
func (m *Manager) attempt(ctx context.Context, r Request) (res Result, err error) {
	for range tries {
		if res, err = m.o.Prober.Probe(ctx, r); err == nil || ctx.Err() != nil {
			return res, err
		}
	}
	return Result{}, err
}

// emit hands on the verdicts on an instance, if all of those are known that say
// whether it has started and is ready.
func (m *Manager) emit(c *container) {
	if m.o.Changed == nil {
		return
	}
	m.emitMu.Lock()
	defer m.emitMu.Unlock()
	m.mu.RLock()
	r := podsync.ProbeResult{ContainerID: c.id, Started: true, Ready: true}
	known := m.byID[c.id] == c
	for _, t := range []Type{Startup, Readiness} {
		p := c.probes[t]
		if p == nil {
			continue
		}
		well := p.state.verdict == plan.Success
		if t == Startup {
			r.Started = well
		} else {
			r.Ready = well
		}
		known = known && (p.state.verdict != plan.Unknown || !c.seen)
	}
	uid, name := c.pod.spec.UID, c.spec.Name
	m.mu.RUnlock()
	if known {
		m.o.Changed(uid, name, r)
	}
}

func word(v plan.Verdict) string {
	switch v {
	case plan.Success:
		return "success"
	case plan.Failure:
		return "failure"
	default:
		return "unknown"
	}
}
