package memory

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault is what happens to a call beside what the call does. The zero value is no fault.
type Fault struct {
	// Latency is waited for, on the Runtime's clock, before anything else.
	Latency time.Duration
	// Err is returned and the call is not done.
	Err error
	// Hang: the call is not done, and does not return until its context ends.
	Hang bool
	// LoseReply: the call is done; when it succeeded, this error is returned in place of the reply.
	LoseReply error
	// HangReply: the call is done, but its reply does not come until the context ends.
	HangReply bool
}

// none says that nothing goes wrong. (== would panic on an error of a type that has no ==.)
func (f Fault) none() bool {
	return f.Latency == 0 && f.Err == nil && !f.Hang && f.LoseReply == nil && !f.HangReply
}

// Intercept decides what goes wrong with a call. It is called from the caller's goroutine, from many at once,
// and may call the Runtime: to end a container, for example, in the middle of an agent's work.
type Intercept func(ctx context.Context, c Call) Fault

// SetIntercept makes fn see every call from now on. Nil: none.
func (r *Runtime) SetIntercept(fn Intercept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.intercept = fn
}

// ErrReplyLost is what LoseReply's caller gets: Unavailable, as when the connection breaks.
var ErrReplyLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// Chain asks each in turn; the first answer that is a fault holds.
func Chain(fns ...Intercept) Intercept {
	return func(ctx context.Context, c Call) Fault {
		for _, fn := range fns {
			if f := fn(ctx, c); !f.none() {
				return f
			}
		}
		return Fault{}
	}
}

// When gives f to the calls for which match is true.
func When(match func(Call) bool, f Fault) Intercept {
	return func(_ context.Context, c Call) Fault {
		if match(c) {
			return f
		}
		return Fault{}
	}
}

// On gives f to every call of method; the empty method means all.
func On(method string, f Fault) Intercept {
	return When(func(c Call) bool { return method == "" || c.Method == method }, f)
}

// OnNth gives f to the nth call of method, or to the nth call of all when method is empty.
func OnNth(method string, nth int, f Fault) Intercept {
	return When(func(c Call) bool {
		if method == "" {
			return c.N == nth
		}
		return c.Method == method && c.Nth == nth
	}, f)
}

// OnMutation gives f to the nth call that changes something.
func OnMutation(nth int, f Fault) Intercept {
	return When(func(c Call) bool { return c.Mutation > 0 && c.Mutation == nth }, f)
}

// Times lets fn answer with at most n faults, and is silent from then on.
func Times(n int, fn Intercept) Intercept {
	var left atomic.Int64
	left.Store(int64(n))
	return func(ctx context.Context, c Call) Fault {
		f := fn(ctx, c)
		if f.none() || left.Add(-1) < 0 {
			return Fault{}
		}
		return f
	}
}

// FailNth fails the nth call of all with err.
func FailNth(nth int, err error) Intercept { return OnNth("", nth, Fault{Err: err}) }

// FailCall fails every call of method with err.
func FailCall(method string, err error) Intercept { return On(method, Fault{Err: err}) }

// LoseReply lets every call of method be done and loses its reply. A nil err means ErrReplyLost;
// status.Error(codes.DeadlineExceeded, …) is the other usual one.
func LoseReply(method string, err error) Intercept {
	if err == nil {
		err = ErrReplyLost
	}
	return On(method, Fault{LoseReply: err})
}

// Hang lets every call of method wait, undone, until its context ends.
func Hang(method string) Intercept { return On(method, Fault{Hang: true}) }

// Delay lets every call of method take d longer.
func Delay(method string, d time.Duration) Intercept { return On(method, Fault{Latency: d}) }
