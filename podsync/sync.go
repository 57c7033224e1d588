package podsync

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync/podspec"
)

// Sync is the state of one run of one pod through one pipeline: the pod, why it
// runs, what the runtime was last seen to hold, and the keys that stages leave
// for one another. Each stage gets a view of its own. Safe for concurrent use
// by the stages of a parallel group.
type Sync struct {
	run *syncRun
	// writer is the stage that this view was made for; nil is the agent or a test.
	writer *slot
}

type syncRun struct {
	pod         *corev1.Pod
	grace       time.Duration
	attempt     int
	cause       Cause
	termination Termination
	runtime     *RuntimePod
	admitted    []*corev1.Pod
	restored    bool
	resize      Resize
	last        Outcome
	log         *slog.Logger
	events      EventRecorder
	clock       clock.PassiveClock

	refresh func(*Sync) // nil, or tells the reporter of a new Runtime

	trace Trace

	mu     sync.Mutex
	values []keyValue
}

type keyValue struct {
	key   AnyKey
	value any
}

// Cause says why a run happens, for logs and for stages that only act on some.
type Cause string

// The causes of a run. When several came together the first of them in this
// order is named.
const (
	// CauseTerminate: the pod is to be stopped, or its grace was shortened.
	CauseTerminate Cause = "Terminate"
	// CauseCreate: the pod is new to this process.
	CauseCreate Cause = "Create"
	// CauseUpdate: its source changed it.
	CauseUpdate Cause = "Update"
	// CauseRuntime: something of it changed in the runtime.
	CauseRuntime Cause = "Runtime"
	// CauseTopic: a topic was published that it waits for.
	CauseTopic Cause = "Topic"
	// CauseRetry: the time of a Wait, Again or backoff has come.
	CauseRetry Cause = "Retry"
	// CauseResync: nothing happened for the resync period.
	CauseResync Cause = "Resync"
)

// Termination says why a pod is being stopped and what its status is to become.
type Termination struct {
	// Deleted: no source wants the pod any more, or it has a deletionTimestamp.
	Deleted bool
	// Orphan: the pod is known from the runtime alone; its spec is rebuilt from
	// labels and annotations, it has no volumes and gets no status.
	Orphan bool
	// Evicted: the node threw it out; its content may go before the source
	// forgets it.
	Evicted bool
	// Phase is Failed when the pod was rejected, given up or evicted; "" computes
	// it from the containers.
	Phase corev1.PodPhase
	// Reason and Message go with Phase into the pod's status.
	Reason, Message string
	// Conditions are added to the status, DisruptionTarget for one.
	Conditions []corev1.PodCondition
}

// EventRecorder takes Kubernetes events about pods. It must not block. Package
// status and client-go's record have implementations; the agent removes
// repetitions before it calls one.
type EventRecorder interface {
	// Event records one event. eventType is corev1.EventTypeNormal or Warning,
	// reason an UpperCamelCase word, message for people.
	Event(pod *corev1.Pod, eventType, reason, message string)
}

// SyncOption sets what NewSync leaves empty.
type SyncOption func(*syncRun)

// WithGrace sets what Grace returns; the default is the pod's own
// terminationGracePeriodSeconds.
func WithGrace(d time.Duration) SyncOption { return func(r *syncRun) { r.grace = d } }

// WithRuntimePod sets what Runtime returns; the default is an empty RuntimePod.
func WithRuntimePod(p *RuntimePod) SyncOption { return func(r *syncRun) { r.runtime = p } }

// WithTermination sets what Termination returns.
func WithTermination(t Termination) SyncOption { return func(r *syncRun) { r.termination = t } }

// WithAdmitted sets what Admitted returns.
func WithAdmitted(pods ...*corev1.Pod) SyncOption { return func(r *syncRun) { r.admitted = pods } }

// WithCause sets what Cause returns; the default is CauseCreate.
func WithCause(c Cause) SyncOption { return func(r *syncRun) { r.cause = c } }

// WithAttempt sets what Attempt returns.
func WithAttempt(n int) SyncOption { return func(r *syncRun) { r.attempt = n } }

// WithLast sets what Last returns.
func WithLast(o Outcome) SyncOption { return func(r *syncRun) { r.last = o } }

// WithResize sets what Resize returns.
func WithResize(z Resize) SyncOption { return func(r *syncRun) { r.resize = z } }

// WithLogger sets the logger; the default discards.
func WithLogger(l *slog.Logger) SyncOption { return func(r *syncRun) { r.log = l } }

// WithEvents sets the event recorder; the default drops events.
func WithEvents(e EventRecorder) SyncOption { return func(r *syncRun) { r.events = e } }

// WithClock sets the clock; the default is the real one.
func WithClock(c clock.PassiveClock) SyncOption { return func(r *syncRun) { r.clock = c } }

// NewSync makes the state of one run for a private copy of the pod, defaulted
// as the API server would. It serves those who run a pipeline with no agent,
// and tests of stages.
func NewSync(pod *corev1.Pod, opts ...SyncOption) *Sync {
	p := pod.DeepCopy()
	podspec.Default(p)
	return newSync(p, opts...)
}

// newSync is NewSync for a pod that is already a defaulted private copy.
func newSync(p *corev1.Pod, opts ...SyncOption) *Sync {
	r := &syncRun{pod: p, cause: CauseCreate}
	for _, o := range opts {
		o(r)
	}
	return r.sync()
}

// sync is the Sync of a run; what was not set gets its default.
func (r *syncRun) sync() *Sync {
	p := r.pod
	if r.grace == 0 && p.Spec.TerminationGracePeriodSeconds != nil {
		r.grace = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if r.runtime == nil {
		r.runtime = &RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
	}
	return &Sync{run: r}
}

// Pod returns the pod to bring about: defaulted, validated, and read-only.
func (s *Sync) Pod() *corev1.Pod { return s.run.pod }

// UID returns the pod's UID.
func (s *Sync) UID() types.UID { return s.run.pod.UID }

// Grace returns how long the pod's containers have to stop: in the terminating
// phase the effective grace period, which only ever shrinks and is at least 1 s.
func (s *Sync) Grace() time.Duration { return s.run.grace }

// Attempt returns how many runs of this phase ended in Retry since the last
// one that did not.
func (s *Sync) Attempt() int { return s.run.attempt }

// Cause returns why this run happens.
func (s *Sync) Cause() Cause { return s.run.cause }

// Termination returns why the pod is being stopped; its zero value before that.
func (s *Sync) Termination() Termination { return s.run.termination }

// Runtime returns what the runtime held of the pod when the run began. Never nil.
func (s *Sync) Runtime() *RuntimePod {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	return s.run.runtime
}

// SetRuntime replaces what Runtime returns to later stages of this run, and has
// the pod's status brought up to date with it. A stage that asked the runtime
// again, or made something worth telling at once (a sandbox whose containers'
// images are still to be pulled), calls it with what it learned.
func (s *Sync) SetRuntime(p *RuntimePod) {
	s.run.mu.Lock()
	s.run.runtime = p
	s.run.mu.Unlock()
	if s.run.refresh != nil {
		s.run.refresh(s)
	}
}

// Admitted returns the pods that the node has taken and that still hold its
// resources, this one not among them. Admit phase only; read-only.
func (s *Sync) Admitted() []*corev1.Pod { return s.run.admitted }

// Restored tells a stage of the admit phase that the pod had been admitted
// before this process started: its stages reserve, and do not judge.
func (s *Sync) Restored() bool { return s.run.restored }

// Resize returns what became of the resources that the pod's source asks for.
// Pod has those that it was given.
func (s *Sync) Resize() Resize { return s.run.resize }

// Last returns the outcome of the pod's previous run, Continue if there was none.
func (s *Sync) Last() Outcome { return s.run.last }

// Now returns the time by the run's clock.
func (s *Sync) Now() time.Time { return s.run.clock.Now() }

// Clock returns the run's clock.
func (s *Sync) Clock() clock.PassiveClock { return s.run.clock }

// Logger returns a logger bound to the pod and, in a stage, to the stage.
func (s *Sync) Logger() *slog.Logger {
	l := s.run.log
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if s.writer != nil {
		l = l.With("stage", s.writer.name)
	}
	return l
}

// Event records an event about the pod. eventType is corev1.EventTypeNormal or
// corev1.EventTypeWarning.
func (s *Sync) Event(eventType, reason, format string, args ...any) {
	if s.run.events != nil {
		s.run.events.Event(s.run.pod, eventType, reason, sprintf(format, args))
	}
}

// Warn records a Warning event about the pod.
func (s *Sync) Warn(reason, format string, args ...any) {
	s.Event(corev1.EventTypeWarning, reason, format, args...)
}

// Ref returns the pod as "namespace/name(uid)", for errors and logs.
func (s *Sync) Ref() string { return Ref(s.run.pod) }

// Ref returns a pod as "namespace/name(uid)", for errors and logs.
func Ref(p *corev1.Pod) string { return fmt.Sprintf("%s/%s(%s)", p.Namespace, p.Name, p.UID) }

func (s *Sync) load(k AnyKey) (any, bool) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	for i := range s.run.values {
		if s.run.values[i].key == k {
			return s.run.values[i].value, true
		}
	}
	return nil, false
}

func (s *Sync) store(k AnyKey, v any) { s.update(k, func(any) any { return v }) }

func (s *Sync) update(k AnyKey, fn func(old any) any) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	for i := range s.run.values {
		if s.run.values[i].key == k {
			s.run.values[i].value = fn(s.run.values[i].value)
			return
		}
	}
	s.run.values = append(s.run.values, keyValue{k, fn(nil)})
}

func (s *Sync) mayWrite(k AnyKey) error {
	if s.writer == nil {
		return nil
	}
	for _, p := range s.writer.deps.Provides {
		if p == k {
			return nil
		}
	}
	return &UndeclaredWriteError{Stage: s.writer.name, Key: k.Name()}
}
