package podsync

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a run's context ended: compare context.Cause(ctx) with errors.Is.
var (
	// ErrSuperseded: a newer version of the pod is waiting to be synced.
	ErrSuperseded = errors.New("a newer version of the pod is waiting")
	// ErrTerminating: the pod is to be stopped.
	ErrTerminating = errors.New("the pod is terminating")
	// ErrGraceShrunk: the pod is to be stopped faster than this run assumed.
	ErrGraceShrunk = errors.New("the grace period was shortened")
	// ErrAgentShutdown: the agent stops; containers are left alone.
	ErrAgentShutdown = errors.New("the agent is shutting down")
	// ErrSibling: another stage of the parallel group ended the run.
	ErrSibling = errors.New("another stage of the group ended the run")
)

// StageOption sets how one stage is run.
type StageOption func(*slot)

// admitTimeout is the limit of a stage of the admit phase that has no other: one
// pod is judged after another, so that a slow answer holds up all.
const admitTimeout = time.Second

// Timeout limits one run of the stage. A stage that exceeds it ends in Retry
// with a *TimeoutError. Zero or less means no limit, but in the admit phase,
// where stages have to answer at once and should Wait rather than block: there
// it means 1 s.
func Timeout(d time.Duration) StageOption { return func(sl *slot) { sl.timeout = max(d, 0) } }

// Detached keeps a newer version of the pod from cutting the stage half-way.
// Termination, a shortened grace, agent shutdown and the stage's Timeout still
// do; Build demands a Timeout.
func Detached() StageOption { return func(sl *slot) { sl.detached = true } }

// Limit lets at most n pods be in the stage at once; others wait, and their
// waiting does not count towards the stage's Timeout. Zero or less means no limit.
func Limit(n int) StageOption { return func(sl *slot) { sl.limit = max(n, 0) } }

// Wrap adds middleware around this stage alone, the first outermost.
func Wrap(m ...Middleware) StageOption {
	return func(sl *slot) { sl.wraps = append(sl.wraps[:len(sl.wraps):len(sl.wraps)], m...) }
}

// Observer sees every run of a stage: it is called before, and the function it
// returns (which may be nil) after. It may put values into the context that the
// stage gets, such as a span. It cannot change the outcome. Must be safe for
// concurrent use and must not block.
type Observer func(ctx context.Context, i StageInfo, s *Sync) (context.Context, func(Outcome))

// Middleware wraps the Run of stages and may change what they return: more
// attempts, fault injection, dry run. It runs inside the observers, so that what
// it does is seen. It is called once per stage, at build.
type Middleware func(i StageInfo, next StageFunc) StageFunc

// Attempts runs a stage up to n times while it ends in Retry, with the pause
// between them. It is for blips; lasting faults belong to the pod's backoff.
func Attempts(n int, pause time.Duration) Middleware {
	return func(_ StageInfo, next StageFunc) StageFunc {
		return func(ctx context.Context, s *Sync) Outcome {
			for i := 1; ; i++ {
				o := next(ctx, s)
				if o.Kind() != KindRetry || i >= n {
					return o
				}
				t := time.NewTimer(pause)
				select {
				case <-ctx.Done():
					t.Stop()
					return canceled(context.Cause(ctx))
				case <-t.C:
				}
			}
		}
	}
}

// TimeoutError says that a stage ran into its Timeout.
type TimeoutError struct {
	// Stage is the stage's name, After its limit.
	Stage string
	After time.Duration
	// Err is what the stage returned, often context.DeadlineExceeded.
	Err error
}

// Error names the stage and the limit.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("stage %q did not finish within %s: %v", e.Stage, e.After, e.Err)
}

// Unwrap returns what the stage returned.
func (e *TimeoutError) Unwrap() error { return e.Err }

// PanicError is a panic in a stage, contained.
type PanicError struct {
	// Stage is the stage's name, Value what it panicked with.
	Stage string
	Value any
	// Stack is the stack at the panic.
	Stack []byte
}

// Error names the stage and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("stage %q panicked: %v", e.Stage, e.Value) }
