package memory

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// gate is what every call passes: numbering, recording, outages.
type gate struct {
	record       int
	calls        []*Call
	n, mutations int
	nth          map[string]int
	intercept    Intercept

	out        chan struct{} // closed during an outage
	down, shut bool
	cut        powerCut
}

func (g *gate) init(o Options) {
	g.record = o.Record
	g.nth = map[string]int{}
	g.intercept = o.Intercept
	g.out = make(chan struct{})
}

// do makes one call: it passes the gate, suffers its fault, and does fn.
func do[Q, P any](r *Runtime, ctx context.Context, method string, req Q, fn func(context.Context, Q) (P, error)) (P, error) {
	var none P
	c, err := r.enter(ctx, method, req)
	if err != nil {
		return none, r.leave(c, err)
	}
	ctx, stop := r.limit(ctx, method, req)
	defer stop()
	resp, err := suffer(r, ctx, c, req, fn)
	if err = r.leave(c, err); err != nil {
		return none, err
	}
	return resp, nil
}

// suffer asks the interceptor, and does fn with the fault it names.
func suffer[Q, P any](r *Runtime, ctx context.Context, c *Call, req Q, fn func(context.Context, Q) (P, error)) (P, error) {
	var none P
	r.mu.Lock()
	intercept, seen := r.gate.intercept, *c
	r.mu.Unlock()
	if intercept == nil {
		return fn(ctx, req)
	}
	seen.Request = req
	f := intercept(ctx, seen)
	if err := r.sleep(ctx, f.Latency); err != nil {
		return none, err
	}
	switch {
	case f.Err != nil:
		return none, f.Err
	case f.Hang:
		return none, r.wait(ctx, nil)
	}
	resp, err := fn(ctx, req)
	switch {
	case err != nil:
		return none, err
	case f.LoseReply != nil:
		return none, f.LoseReply
	case f.HangReply:
		return none, r.wait(ctx, nil)
	}
	return resp, nil
}

// enter numbers and records a call, and refuses it during an outage or when its context has ended already.
func (r *Runtime) enter(ctx context.Context, method string, req any) (*Call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Clock.Now()
	r.alarms.due(now)
	g := &r.gate
	g.n++
	g.nth[method]++
	c := &Call{N: g.n, Nth: g.nth[method], Method: method, Time: now}
	if mutating(method) {
		g.mutations++
		c.Mutation, c.Request = g.mutations, req
	}
	if g.record > 0 {
		r.describe(c, req)
		if len(g.calls) >= 2*g.record {
			g.calls = append([]*Call(nil), g.calls[len(g.calls)-g.record+1:]...)
		}
		g.calls = append(g.calls, c)
	} else if g.intercept != nil {
		r.describe(c, req)
	}
	if g.shut || g.down || g.cut.refuses(r, c) {
		return c, errUnavailable()
	}
	if ctx.Err() != nil {
		return c, contextError(ctx)
	}
	return c, nil
}

// leave records how a call ended. A call that ends during an outage has lost its reply.
func (r *Runtime) leave(c *Call, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = status.FromContextError(err).Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	r.gate.cut.left(r, c)
	if r.gate.isOut() {
		err = errUnavailable()
	}
	c.Ended, c.Err = r.opt.Clock.Now(), err
	return err
}

// isOut says whether callers get through now.
func (g *gate) isOut() bool { return g.shut || g.down || g.cut.tripped }

// outage lets everyone who waits return, after isOut has become true. The lock is held.
func (r *Runtime) outage() {
	select {
	case <-r.gate.out:
	default:
		close(r.gate.out)
	}
}

// restore ends the outage when nothing causes it any more. The lock is held.
func (r *Runtime) restore() {
	if !r.gate.isOut() {
		select {
		case <-r.gate.out:
			r.gate.out = make(chan struct{})
		default:
		}
	}
}

// limit bounds a call as a CRI client does.
func (r *Runtime) limit(ctx context.Context, method string, req any) (context.Context, context.CancelFunc) {
	d := r.opt.CallTimeout
	if d <= 0 {
		return ctx, func() {}
	}
	switch q := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		d *= 2
	case *runtimeapi.StopContainerRequest:
		d += time.Duration(q.GetTimeout()) * time.Second
	case *runtimeapi.ExecSyncRequest:
		if q.GetTimeout() == 0 {
			return ctx, func() {}
		}
		d += time.Duration(q.GetTimeout()) * time.Second
	case *runtimeapi.PullImageRequest, *runtimeapi.GetEventsRequest:
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	a := r.alarms.after(d, func(time.Time) { cancel(errCallTimeout) })
	r.mu.Unlock()
	return ctx, func() {
		r.mu.Lock()
		r.alarms.cancel(a)
		r.mu.Unlock()
		cancel(context.Canceled)
	}
}
