package podsync

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stageContext is the context of a stage that is detached from its run, has a
// time limit, or both. Its timer and its place among the children of the run's
// context are made when somebody first waits on it: a stage that finds nothing
// to do never does, and that is nearly every run. Safe for concurrent use.
type stageContext struct {
	run      context.Context // the run's
	values   context.Context // where values come from before it is made
	detached bool
	deadline time.Time // zero is none

	mu sync.Mutex
	// own is run, detached if so asked; limited is own with the deadline. Both
	// are nil before they are needed.
	own, limited context.Context
	stop         func()
	over         bool
}

var _ context.Context = (*stageContext)(nil)

func newStageContext(run context.Context, detached bool, timeout time.Duration) *stageContext {
	c := &stageContext{run: run, values: run, detached: detached}
	if detached {
		c.values = context.WithoutCancel(run)
	}
	if timeout > 0 {
		c.deadline = time.Now().Add(timeout)
	}
	return c
}

// end ends the context: the stage has returned.
func (c *stageContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}

// make makes the real contexts. c.mu is held.
func (c *stageContext) make() {
	if c.limited != nil {
		return
	}
	c.own, c.stop = c.run, func() {}
	if c.detached {
		c.own, c.stop = detach(c.run)
	}
	c.limited = c.own
	if outer := c.stop; !c.deadline.IsZero() || !c.detached {
		var cancel context.CancelFunc
		if c.deadline.IsZero() {
			c.limited, cancel = context.WithCancel(c.own)
		} else {
			c.limited, cancel = context.WithDeadline(c.own, c.deadline)
		}
		c.stop = func() { cancel(); outer() }
	}
	if c.over {
		c.stop()
	}
}

// unlimited returns the context without its time limit: its end is the run's.
func (c *stageContext) unlimited() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	return c.own
}

// Done implements context.Context.
func (c *stageContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	return c.limited.Done()
}

// Err implements context.Context.
func (c *stageContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limited == nil && !c.over && !c.ended() {
		return nil
	}
	c.make()
	return c.limited.Err()
}

// ended tells whether a context made now would be at its end.
func (c *stageContext) ended() bool {
	from := c.run
	if c.detached {
		from = hardOf(c.run)
	}
	return from.Err() != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

// Deadline implements context.Context.
func (c *stageContext) Deadline() (at time.Time, ok bool) {
	if !c.detached {
		at, ok = c.run.Deadline()
	}
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(at)) {
		return c.deadline, true
	}
	return at, ok
}

// Value implements context.Context.
func (c *stageContext) Value(key any) any {
	c.mu.Lock()
	ctx := c.limited
	c.mu.Unlock()
	if ctx == nil {
		ctx = c.values
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

// hardContext is the key of a run's context that a newer version does not end:
// the run's own context is its child.
type hardContext struct{}

func hardOf(ctx context.Context) context.Context {
	if hard, ok := ctx.Value(hardContext{}).(context.Context); ok {
		return hard
	}
	return ctx
}
