package podsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config is what an Agent is made of. Only Plan and Sources have no useful zero value.
type Config struct {
	// Plan is the pipelines. New builds it and reports its mistakes.
	Plan *Plan
	// Sources are the places that pods come from.
	Sources []Source
	// Runtime shows what the container runtime holds. nil is a node without one.
	Runtime RuntimeView
	// Reporter is told how runs end. nil tells nobody.
	Reporter Reporter
	// Cleaners remove what pods leave behind, in this order: sandboxes before
	// directories before cgroups.
	Cleaners []Cleaner
	// Allocator decides about resources that change while a pod runs, and
	// remembers what pods were given. nil gives every pod what it asks for.
	Allocator Allocator
	// Events takes the events about pods, repetitions removed. nil drops them.
	Events EventRecorder
	// ObserveRun sees every run of a phase as a whole, around its stages; the
	// StageInfo has the phase, no name, and index -1. nil observes nothing.
	ObserveRun Observer
	// Bus carries topics. nil makes one of the agent's own, see Agent.Bus.
	Bus *Bus
	// Logger takes the log. nil discards it.
	Logger *slog.Logger
	// Resync is how long a pod that nothing happens to is left alone. Each wait
	// is drawn from [Resync, 1.5 Resync). Default 1 min.
	Resync time.Duration
	// Backoff returns how long a pod waits after its n-th failed run in a row,
	// counted from 1. Default 1 s doubling to 1 min; each is drawn from [d, 1.5 d).
	Backoff func(n int) time.Duration
	// Housekeeping is the period of the search for what pods left behind that
	// nobody knows. Default 2 min.
	Housekeeping time.Duration
	// RestoreHold limits how long pods that are new to the node wait after a
	// start for the pods that ran on it before, so that those get their
	// resources first. Default 10 s.
	RestoreHold time.Duration
}

// Agent drives pods through the pipelines: it merges its sources, admits pods
// one after another, runs one worker per pod UID, and cleans up. Several agents
// can live in one process. All methods are safe for concurrent use.
type Agent struct {
	cfg   Config
	pipes *Pipelines
	log   *slog.Logger
	bus   *Bus

	mu       sync.Mutex
	ctx      context.Context // of Run; nil before
	stopping bool
	wg       sync.WaitGroup
	sources  map[string]*sourceState
	workers  map[types.UID]*worker
	turns    map[string][]*worker // by full name: the first has its turn
	topics   map[Topic]uint64     // how often each was published
	queue    []*worker            // waiting for admission
	admitNow chan struct{}
	// restored holds the pods that the runtime had when the agent started and
	// that no source has claimed yet, and whether containers of them could run;
	// nil until the runtime was asked.
	restored  map[types.UID]bool
	holdUntil time.Time
	tidyNow   chan struct{}
	arrivals  uint64
	roomEpoch uint64 // how often something changed that resizes may wait for
}

type sourceState struct {
	pods map[types.UID]*corev1.Pod // as handed over
	seen bool
}

// New checks the configuration, builds the plan and returns an agent that is
// not running yet. All mistakes are joined in one error.
func New(cfg Config) (*Agent, error) {
	var errs []error
	if cfg.Plan == nil {
		errs = append(errs, errors.New("podsync: Config.Plan is nil; give it at least &podsync.Plan{}"))
	} else if cfg.Plan.fill(); !cfg.Plan.Terminating.Has(StageVerifyStopped) && cfg.Plan.Sync.Has(StageRuntime) {
		errs = append(errs, fmt.Errorf("podsync: the sync pipeline starts containers (%q) but the terminating pipeline has no %q; append cri's VerifyStopped", StageRuntime, StageVerifyStopped))
	}
	if len(cfg.Sources) == 0 {
		errs = append(errs, errors.New("podsync: Config.Sources is empty; an agent needs at least one source of pods"))
	}
	a := &Agent{
		cfg: cfg, log: cfg.Logger, bus: cfg.Bus,
		sources: map[string]*sourceState{}, workers: map[types.UID]*worker{}, turns: map[string][]*worker{},
		topics: map[Topic]uint64{}, admitNow: make(chan struct{}, 1), tidyNow: make(chan struct{}, 1),
	}
	for _, s := range cfg.Sources {
		if _, dup := a.sources[s.Name()]; dup {
			errs = append(errs, fmt.Errorf("podsync: two sources are named %q", s.Name()))
		}
		a.sources[s.Name()] = &sourceState{pods: map[types.UID]*corev1.Pod{}}
	}
	if cfg.Plan != nil {
		pipes, err := cfg.Plan.Build()
		errs = append(errs, err)
		a.pipes = pipes
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.bus == nil {
		a.bus = NewBus()
	}
	if a.cfg.Resync <= 0 {
		a.cfg.Resync = time.Minute
	}
	if a.cfg.Backoff == nil {
		a.cfg.Backoff = defaultBackoff
	}
	if a.cfg.Housekeeping <= 0 {
		a.cfg.Housekeeping = 2 * time.Minute
	}
	if a.cfg.RestoreHold <= 0 {
		a.cfg.RestoreHold = 10 * time.Second
	}
	return a, nil
}

func defaultBackoff(n int) time.Duration {
	return min(time.Second<<min(max(n-1, 0), 10), time.Minute)
}

func jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d + rand.N(d/2)
}

// Bus returns the bus on which backends publish what pods wait for.
func (a *Agent) Bus() *Bus { return a.bus }

// Pipelines returns the built pipelines.
func (a *Agent) Pipelines() *Pipelines { return a.pipes }

// Run drives the pods until ctx ends, and returns nil when every goroutine that
// it started has ended. Containers are left alone. It can be called once.
func (a *Agent) Run(outer context.Context) error {
	// The agent's own context ends after outer has, with a cause that tells
	// every stage why.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(outer))
	defer cancel(nil)
	a.mu.Lock()
	if a.ctx != nil {
		a.mu.Unlock()
		return errors.New("podsync: Agent.Run was called twice")
	}
	a.ctx = ctx
	a.mu.Unlock()
	unsubscribe := a.bus.Subscribe(a.published)
	defer unsubscribe()
	a.log.InfoContext(ctx, "agent starts", "pipelines", a.pipes.String())

	loops := []func(context.Context){a.admitLoop, a.housekeep}
	if a.cfg.Runtime != nil {
		loops = append(loops, a.watchRuntime)
	}
	for _, s := range a.cfg.Sources {
		loops = append(loops, func(ctx context.Context) { a.runSource(ctx, s) })
	}
	for _, l := range loops {
		a.wg.Go(func() { l(ctx) })
	}
	<-outer.Done()
	a.mu.Lock()
	a.stopping = true
	for _, w := range a.workers {
		w.stopTimer()
	}
	a.mu.Unlock()
	cancel(ErrAgentShutdown)
	a.wg.Wait()
	a.log.InfoContext(ctx, "agent stopped; containers are left as they are")
	return nil
}

// runSource keeps a source running: an error is logged and the source started
// again with growing pauses, for a node without its source is of no use.
func (a *Agent) runSource(ctx context.Context, s Source) {
	for n := 1; ; n++ {
		err := s.Run(ctx, func(pods []*corev1.Pod) { a.setSource(s.Name(), pods) })
		if ctx.Err() != nil {
			return
		}
		d := jitter(a.cfg.Backoff(n))
		a.log.ErrorContext(ctx, "source of pods ended; its pods stay as they are", "source", s.Name(), "err", err, "again", d)
		if !sleep(ctx, d) {
			return
		}
	}
}

func (a *Agent) watchRuntime(ctx context.Context) {
	for n := 1; ; n++ {
		pods, err := a.cfg.Runtime.Pods(ctx)
		if err == nil {
			a.foundInRuntime(pods)
			break
		}
		if ctx.Err() != nil {
			return
		}
		d := min(jitter(a.cfg.Backoff(n)), 5*time.Second)
		a.log.WarnContext(ctx, "runtime does not answer yet; no pod is synced", "err", err, "again", d)
		if !sleep(ctx, d) {
			return
		}
	}
	for ctx.Err() == nil {
		if err := a.cfg.Runtime.Watch(ctx, func(uid types.UID) { a.wakePod(uid, CauseRuntime) }); err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "watching the runtime failed", "err", err)
			sleep(ctx, time.Second)
		}
	}
}

// foundInRuntime notes which pods the node had before this process.
func (a *Agent) foundInRuntime(pods []*RuntimePod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		a.restored[p.UID] = p.ContainersCouldRun()
	}
	for uid, w := range a.workers {
		running, ok := a.restored[uid]
		if !ok {
			continue
		}
		delete(a.restored, uid)
		w.restored = true
		if w.state == stateTerminating {
			w.holds = running // it came to be stopped before this was known
		}
	}
	a.holdUntil = time.Now().Add(a.cfg.RestoreHold)
	for _, w := range a.workers {
		a.startLocked(w)
	}
	a.kickAdmission()
	kick(a.tidyNow)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wakePod runs the pod soon, if the agent has it.
func (a *Agent) wakePod(uid types.UID, c Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.workers[uid]; w != nil {
		a.wakeLocked(w, c)
	}
}

// published is the bus's subscriber: it wakes the pods named, or else those
// that wait for the topic. Changed objects concern every pod.
func (a *Agent) published(t Topic, uids []types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.topics[t]++
	if t == TopicNodeChanged {
		a.reconsiderLocked()
	}
	for _, uid := range uids {
		if w := a.workers[uid]; w != nil {
			a.wakeLocked(w, CauseTopic)
		}
	}
	if len(uids) > 0 {
		return
	}
	for _, w := range a.workers {
		if w.waitsFor(t) || (t == TopicObjectsChanged && w.state == stateSync) {
			a.wakeLocked(w, CauseTopic)
		}
	}
}

// allSeenLocked tells whether every source has handed over a set.
func (a *Agent) allSeenLocked() bool {
	for _, s := range a.sources {
		if !s.seen {
			return false
		}
	}
	return true
}
