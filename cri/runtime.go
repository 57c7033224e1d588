package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/store"
)

// Defaults of Options.
const (
	DefaultOwner             = "podsync"
	DefaultMaxInFlight       = 8
	DefaultCallTimeout       = 2 * time.Minute
	DefaultCrashLoopInitial  = 10 * time.Second
	DefaultCrashLoopMax      = 300 * time.Second
	DefaultRelistMin         = time.Second
	DefaultRelistMax         = time.Minute
	DefaultUnhealthyAfter    = 3 * time.Minute
	defaultSlotAfter         = 10 * time.Second
	sandboxTimeoutMultiplier = 2
)

// OwnerLabel is the label of sandboxes and containers that says which agent
// made them. Its value is Options.Owner.
const OwnerLabel = "podsync.dev/owner"

// Options are what a Runtime is made of. Runtime and Images are required.
type Options struct {
	// Runtime and Images are the runtime's services: cri/remote's, cri/memory's
	// or another's.
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	// Puller makes images present; nil makes one of Images with the defaults.
	Puller *images.Puller
	// Node describes the node; it is called for each run that starts something.
	// nil is the zero config.Node.
	Node func() config.Node
	// Objects gives config maps and secrets for environments; nil makes every
	// required reference an error.
	Objects podsync.Objects
	// Services lists the services that containers of a namespace are told of in
	// their environment; nil for none.
	Services func(ctx context.Context, namespace string) ([]*corev1.Service, error)
	// RuntimeHandler returns the handler of the pod's runtimeClassName; nil
	// makes a pod that names one an error.
	RuntimeHandler func(ctx context.Context, pod *corev1.Pod) (string, error)
	// UserNamespace returns the id mapping of a pod with hostUsers false; nil makes
	// such a pod an error.
	UserNamespace func(ctx context.Context, pod *corev1.Pod) (*runtimeapi.UserNamespace, error)
	// RecursiveReadOnly tells whether a runtime handler can make mounts read-only
	// with all that is mounted below; nil says that none can.
	RecursiveReadOnly func(handler string) bool
	// Probes are the verdicts of liveness and startup probes; nil for none.
	Probes plan.Probes

	// Store keeps what containers were resized to over restarts of the agent; nil
	// keeps it for as long as the process lives.
	Store store.Store

	// Owner is the value of OwnerLabel on what is made, and only pods that carry
	// it are listed, collected and cleaned up. "" is DefaultOwner.
	Owner string
	// Adopt makes pods that carry the kubelet's labels and no OwnerLabel this
	// agent's own, too: to take a node over from a kubelet.
	Adopt bool
	// LogLinks is the directory of the legacy links to container logs,
	// /var/log/containers on a node with a kubelet. "" makes none.
	LogLinks string

	// MaxInFlight bounds the calls in flight that make sandboxes and containers
	// and start them; 0 is DefaultMaxInFlight. A call that takes longer than
	// 10 s no longer counts, so that a stuck one holds nobody up.
	MaxInFlight int
	// CallTimeout bounds one call to the runtime, twice as long for a sandbox,
	// and on top of the grace when a container is stopped; 0 is
	// DefaultCallTimeout.
	CallTimeout time.Duration
	// CrashLoopInitial and CrashLoopMax bound the wait before a container is
	// started that keeps exiting; it doubles. 0 is the default, 10 s and 300 s.
	CrashLoopInitial, CrashLoopMax time.Duration
	// RelistMin and RelistMax bound the pause between two looks at the whole
	// runtime; 0 is the default, 1 s and 1 min. Without an event stream it is
	// always RelistMin.
	RelistMin, RelistMax time.Duration
	// UnhealthyAfter is how old the last finished look may be; 0 is
	// DefaultUnhealthyAfter.
	UnhealthyAfter time.Duration

	// Clock is the clock; nil is the real one.
	Clock clock.WithTicker
	// Bus is told podsync.TopicImagePulled; nil for none. It is used for the
	// Puller that New makes.
	Bus *podsync.Bus
	// Logger takes the log; nil discards it.
	Logger *slog.Logger
}

// Runtime is the container runtime of a node as an agent uses it. Safe for
// concurrent use. It holds no resource of its own and need not be closed; the
// services of its Options are the caller's.
type Runtime struct {
	o     Options
	log   *slog.Logger
	pull  *images.Puller
	mon   *Monitor
	crash *crashLoop
	slots chan struct{}
	hooks *hooks

	actuated *actuated

	stopMu sync.Mutex
	stops  map[string]*stopClock // by pod UID
}

// New makes a Runtime. It makes no call to the runtime.
func New(o Options) (*Runtime, error) {
	if o.Runtime == nil {
		return nil, errors.New("cri: Options.Runtime is nil; give it cri/remote's or cri/memory's service")
	}
	if o.Images == nil && o.Puller == nil {
		return nil, errors.New("cri: Options.Images and Options.Puller are nil; give one of them")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Node == nil {
		o.Node = func() config.Node { return config.Node{} }
	}
	if o.Owner == "" {
		o.Owner = DefaultOwner
	}
	setDefault(&o.MaxInFlight, DefaultMaxInFlight)
	setDefault(&o.CallTimeout, DefaultCallTimeout)
	setDefault(&o.CrashLoopInitial, DefaultCrashLoopInitial)
	setDefault(&o.CrashLoopMax, DefaultCrashLoopMax)
	setDefault(&o.RelistMin, DefaultRelistMin)
	setDefault(&o.RelistMax, DefaultRelistMax)
	setDefault(&o.UnhealthyAfter, DefaultUnhealthyAfter)
	o.RelistMax = max(o.RelistMax, o.RelistMin)
	r := &Runtime{
		o: o, log: o.Logger, pull: o.Puller,
		crash: newCrashLoop(min(o.CrashLoopInitial, o.CrashLoopMax), o.CrashLoopMax, o.Clock),
		slots: make(chan struct{}, o.MaxInFlight),
		hooks: newHooks(o.Runtime, o.Clock),
		stops: map[string]*stopClock{},

		actuated: newActuated(o.Store),
	}
	if r.pull == nil {
		r.pull = images.New(images.Options{Service: o.Images, Clock: o.Clock, Logger: o.Logger, Bus: o.Bus})
	}
	r.mon = newMonitor(r)
	return r, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Monitor returns the view of the runtime that the agent and the stages share.
func (r *Runtime) Monitor() *Monitor { return r.mon }

// Backoffs returns the crash-loop backoffs in force, for a store.
func (r *Runtime) Backoffs() []Backoff { return r.crash.list() }

// RestoreBackoffs puts back what Backoffs returned before a restart. Entries
// that are out of bounds or forgotten by now are corrected or dropped.
func (r *Runtime) RestoreBackoffs(b []Backoff) { r.crash.restore(b) }

// owns tells whether what carries these labels is this agent's.
func (r *Runtime) owns(labels map[string]string) bool {
	owner, marked := labels[OwnerLabel]
	return owner == r.o.Owner || !marked && r.o.Adopt
}

// heavy makes a call that starts something: it waits for its turn, and once
// begun the end of ctx does not cut it, since half a sandbox helps nobody.
func (r *Runtime) heavy(ctx context.Context, timeout time.Duration, call func(context.Context) error) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	giveBack := sync.OnceFunc(func() { <-r.slots })
	defer giveBack()
	if err := ctx.Err(); err != nil {
		return err
	}
	long := time.AfterFunc(defaultSlotAfter, giveBack)
	defer long.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return call(ctx)
}

// quick gives a call that changes nothing the usual limit.
func (r *Runtime) quick(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.o.CallTimeout)
}

// runtimeHandler returns the name of the pod's runtime handler.
func (r *Runtime) runtimeHandler(ctx context.Context, pod *corev1.Pod) (string, error) {
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if r.o.RuntimeHandler == nil {
		return "", fmt.Errorf("pod %s: spec.runtimeClassName %q: no runtime classes are configured on this node", podsync.Ref(pod), *class)
	}
	h, err := r.o.RuntimeHandler(ctx, pod)
	if err != nil {
		return "", fmt.Errorf("pod %s: spec.runtimeClassName %q: %w", podsync.Ref(pod), *class, err)
	}
	return h, nil
}

// outcome turns an error of a run into its outcome: when the context ended,
// that is what the run ended of, whatever the runtime made of it.
func outcome(ctx context.Context, err error) podsync.Outcome {
	if err == nil {
		return podsync.Continue()
	}
	if e := ctx.Err(); e != nil {
		return podsync.FromErr(e)
	}
	if errors.Is(err, context.Canceled) {
		// Somebody else's context, not this run's.
		return podsync.Retry(err)
	}
	return podsync.FromErr(err)
}
