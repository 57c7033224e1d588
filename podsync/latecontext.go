package podsync

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lateContext is a context that can be canceled with a cause, detached from its
// parent, and limited in time. Its timer and its place among the children of its
// parent are made when somebody first waits on it: stages that find nothing to
// do never wait, and that is nearly every run. Safe for concurrent use.
type lateContext struct {
	parent context.Context
	// hard, of the context of a run, is the part that a newer version does not end.
	hard     *lateContext
	detached bool
	deadline time.Time // zero is none

	mu sync.Mutex
	// own is the parent, detached if so asked; made is what this context is. Both
	// are nil before they are needed.
	own, made context.Context
	stop      func(cause error)
	over      bool
	cause     error // when it is over
}

var _ context.Context = (*lateContext)(nil)

func newLateContext(parent context.Context) *lateContext {
	return &lateContext{parent: parent}
}

// newStageContext returns the context of a stage that began at that time.
func newStageContext(run context.Context, detached bool, began time.Time, timeout time.Duration) *lateContext {
	c := &lateContext{parent: run, detached: detached}
	if timeout > 0 {
		c.deadline = began.Add(timeout)
	}
	return c
}

// newRunContext returns the context of a run, and the part of it that goes on
// when the run is superseded.
func newRunContext(agent context.Context) (soft, hard *lateContext) {
	hard = newLateContext(agent)
	soft = newLateContext(hard)
	soft.hard = hard
	return soft, hard
}

// cancel ends the context; nil stands for context.Canceled.
func (c *lateContext) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.cause = true, cause
	if c.stop != nil {
		c.stop(cause)
	}
}

// make makes the real contexts. c.mu is held.
func (c *lateContext) make() {
	if c.made != nil {
		return
	}
	c.own = c.parent
	attach := func() {}
	if c.detached {
		c.own, attach = detach(c.parent)
	}
	ctx, cancel := context.WithCancelCause(c.own)
	c.made, c.stop = ctx, func(cause error) { cancel(cause); attach() }
	if !c.deadline.IsZero() {
		limited, stopTimer := context.WithDeadline(ctx, c.deadline)
		c.made, c.stop = limited, func(cause error) { cancel(cause); stopTimer(); attach() }
	}
	if c.over {
		c.stop(c.cause)
	}
}

// unlimited returns the parent, detached if so asked: it ends neither with the
// time limit nor by cancel.
func (c *lateContext) unlimited() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	return c.own
}

// Done implements context.Context.
func (c *lateContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	return c.made.Done()
}

// Err implements context.Context.
func (c *lateContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil && !c.over && !c.due() {
		return nil
	}
	c.make()
	return c.made.Err()
}

// due tells whether a context made now would be at its end.
func (c *lateContext) due() bool {
	from := c.parent
	if c.detached {
		from = hardOf(c.parent)
	}
	return from.Err() != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

// Deadline implements context.Context.
func (c *lateContext) Deadline() (at time.Time, ok bool) {
	if !c.detached {
		at, ok = c.parent.Deadline()
	}
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(at)) {
		return c.deadline, true
	}
	return at, ok
}

// Value implements context.Context.
func (c *lateContext) Value(key any) any {
	if _, ok := key.(hardContext); ok && c.hard != nil {
		return c.hard
	}
	c.mu.Lock()
	ctx := c.made
	c.mu.Unlock()
	switch {
	case ctx != nil:
	case c.detached:
		ctx = context.WithoutCancel(c.parent)
	default:
		ctx = c.parent
	}
	return ctx.Value(key)
}

// detach returns a context that outlives ctx when ctx ends because the run was
// superseded, and ends with it for any other cause.
func detach(ctx context.Context) (context.Context, func()) {
	d, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	hard := hardOf(ctx)
	follow := func() {
		if cause := context.Cause(hard); !errors.Is(cause, ErrSuperseded) {
			cancel(cause)
		}
	}
	if hard.Err() != nil {
		follow() // at once, and not a moment later on another goroutine
	}
	stop := context.AfterFunc(hard, follow)
	return d, func() { stop(); cancel(nil) }
}

// hardContext is the key of a run's context that a newer version does not end.
type hardContext struct{}

func hardOf(ctx context.Context) context.Context {
	if hard, ok := ctx.Value(hardContext{}).(context.Context); ok {
		return hard
	}
	return ctx
}
