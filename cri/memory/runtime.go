package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is a CRI runtime in memory. Make it with New. It is safe for concurrent use.
type Runtime struct {
	opt    Options
	alarms alarms

	mu    sync.Mutex
	gate  gate
	state state
	rules []Rule
	pulls []Pull

	events  events
	changed chan struct{} // closed at the next change, when somebody waits for one
	podCIDR string
	cond    struct{ runtime, network runtimeapi.RuntimeCondition }
}

var (
	_ internalapi.RuntimeService      = (*Runtime)(nil)
	_ internalapi.ImageManagerService = (*Runtime)(nil)
)

// state is what a reboot leaves on the disk, and what the kernel holds.
type state struct {
	ids        uint64
	stamp      int64
	sandboxes  map[string]*sandbox
	order      []*sandbox // by creation
	containers map[string]*container
	ordered    []*container      // by creation
	names      map[string]string // reserved name -> ID
	images     imageStore
	pools      []*pool
}

// New makes a Runtime. Call Shutdown when it is no longer needed.
//
// An image or registry entry of the Options whose reference is not valid is left out, with a warning in the log.
func New(opt Options) *Runtime {
	r := &Runtime{opt: opt.withDefaults()}
	r.rules = append(r.rules, r.opt.Rules...)
	r.alarms.clock = r.opt.Clock
	r.alarms.settle = func(gen uint64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.alarms.fired(gen)
	}
	r.state.sandboxes = map[string]*sandbox{}
	r.state.containers = map[string]*container{}
	r.state.names = map[string]string{}
	for _, c := range r.opt.PodCIDRs {
		r.state.pools = append(r.state.pools, newPool(c))
	}
	r.state.images.init(r.opt)
	r.gate.init(r.opt)
	r.events.opt = r.opt.Events
	r.cond.runtime.Type, r.cond.runtime.Status = runtimeapi.RuntimeReady, true
	r.cond.network.Type, r.cond.network.Status = runtimeapi.NetworkReady, true
	return r
}

// Shutdown ends the Runtime: event streams and waiting calls return Unavailable, as do all calls from now on,
// containers are frozen, and no goroutine of the Runtime is left when it returns. It may be called twice.
func (r *Runtime) Shutdown() {
	r.mu.Lock()
	r.gate.shut = true
	r.outage()
	r.alarms.freeze()
	r.mu.Unlock()
	r.alarms.stop()
}

// Close is the Close of the CRI interfaces: it ends a client's connection, so here it does nothing. What
// ends the Runtime is Shutdown.
func (r *Runtime) Close(context.Context) error { return nil }

// id gives the next ID: 64 hexadecimal digits, as containerd's.
func (r *Runtime) id(kind string) string {
	r.state.ids++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", r.opt.Seed, kind, r.state.ids))
	return hex.EncodeToString(sum[:])
}

// stampNow is the time in nanoseconds, but always later than the last stamp: who sorts by creation
// time gets the order of creation, whatever the clock does.
func (r *Runtime) stampNow() int64 {
	r.state.stamp = max(r.opt.Clock.Now().UnixNano(), r.state.stamp+1)
	return r.state.stamp
}

// nanos is a time for a field in which zero means never.
func nanos(t time.Time) int64 {
	if n := t.UnixNano(); n != 0 {
		return n
	}
	return 1
}

// wait waits for done, the end of ctx, or an outage of the runtime. Done may be nil. Of several that have
// happened an outage counts first, then done.
func (r *Runtime) wait(ctx context.Context, done <-chan struct{}) error {
	r.mu.Lock()
	out := r.gate.out
	r.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	case <-out:
	}
	switch {
	case isClosed(out):
		return errUnavailable()
	case isClosed(done):
		return nil
	}
	return contextError(ctx)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// sleep waits for d on the Runtime's clock.
func (r *Runtime) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	done := make(chan struct{})
	r.mu.Lock()
	a := r.alarms.after(d, func(time.Time) { close(done) })
	r.mu.Unlock()
	err := r.wait(ctx, done)
	if err != nil {
		r.mu.Lock()
		r.alarms.cancel(a)
		r.mu.Unlock()
	}
	return err
}

// errCallTimeout is the cause of a context that Options.CallTimeout ended.
var errCallTimeout = errors.New("the call's time is over")

// contextError is the error a gRPC client gets when ctx has ended. A caller's own cause stays its own.
func contextError(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errCallTimeout) {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	return status.FromContextError(ctx.Err()).Err()
}

func errUnavailable() error {
	return status.Error(codes.Unavailable, "connection error: the in-memory runtime is down")
}

func notFound(format string, args ...any) error {
	return status.Error(codes.NotFound, fmt.Sprintf(format, args...)+": not found")
}

// find looks id up in m: the whole ID, or a prefix that only one has, as containerd allows.
func find[T any](m map[string]T, id string) (T, bool) {
	if v, ok := m[id]; ok {
		return v, true
	}
	var found T
	n := 0
	if id == "" || len(id) >= 64 {
		return found, false
	}
	for k, v := range m {
		if strings.HasPrefix(k, id) {
			found = v
			n++
		}
	}
	if n != 1 {
		var zero T
		return zero, false
	}
	return found, true
}
