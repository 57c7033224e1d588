package cni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// StatusService is the one call that FromRuntime makes. The RuntimeService of
// k8s.io/cri-api has it.
type StatusService interface {
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// FromRuntime is a Checker that asks the container runtime for its NetworkReady
// condition, as the kubelet does. Run asks again and again; with no Run, Ready
// asks by itself when what is known has grown old. Until the first answer the
// network counts as not ready; a question that fails leaves what is known as it
// is, since a runtime that is restarting says nothing about the network. The
// fields must not be changed after the first use.
type FromRuntime struct {
	// Runtime is asked. Required.
	Runtime StatusService
	// Period is how often while the network is ready; default 5 s.
	Period time.Duration
	// RetryPeriod is how often while it is not; default 1 s.
	RetryPeriod time.Duration
	// Timeout is for one question; default 10 s.
	Timeout time.Duration
	// Bus is where podsync.TopicNetworkReady goes when the network becomes ready;
	// may be nil.
	Bus *podsync.Bus
	// Logger is told of changes; nil discards.
	Logger *slog.Logger

	state state
}

var _ Checker = (*FromRuntime)(nil)

// errNoRuntime says that a field is missing.
var errNoRuntime = errors.New("cni.FromRuntime: Runtime is not set")

// Ready implements Checker.
func (f *FromRuntime) Ready(ctx context.Context) (ready bool, reason, message string) {
	f.state.fresh(ctx, f.pause(), f.ask)
	s := f.state.get()
	return s.Ready, s.Reason, s.Message
}

// Status returns what is known.
func (f *FromRuntime) Status() Status { return f.state.get() }

// Run asks until ctx ends, and then returns nil. Only one may run at a time.
func (f *FromRuntime) Run(ctx context.Context) error {
	if f.Runtime == nil {
		return errNoRuntime
	}
	defer f.state.begin()()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		f.state.look(ctx, f.ask)
		timer.Reset(f.pause())
	}
}

// pause is the time between two questions as things stand.
func (f *FromRuntime) pause() time.Duration {
	if f.state.get().Ready {
		return or(f.Period, 5*time.Second)
	}
	return or(f.RetryPeriod, time.Second)
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// ask asks once.
func (f *FromRuntime) ask(ctx context.Context) {
	if f.Runtime == nil {
		f.state.set(Status{Reason: ReasonUnknown, Message: errNoRuntime.Error()}, f.Bus, f.Logger)
		return
	}
	call, cancel := context.WithTimeout(ctx, or(f.Timeout, 10*time.Second))
	defer cancel()
	resp, err := f.Runtime.Status(call, false)
	switch {
	case err != nil && ctx.Err() != nil:
		// Whoever asked has gone; that says nothing about the runtime.
	case err != nil:
		f.noAnswer(fmt.Errorf("ask the container runtime for its status: %w", err))
	default:
		f.state.set(fromCondition(resp.GetStatus()), f.Bus, f.Logger)
	}
}

// noAnswer notes a question that failed and leaves the rest as it is.
func (f *FromRuntime) noAnswer(err error) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	f.state.status.Problems = []string{err.Error()}
	if f.state.status.Since.IsZero() {
		f.state.status.Reason, f.state.status.Message = ReasonUnknown, err.Error()
	}
}

// fromCondition reads the answer. A runtime that does not mention its network
// has none, as for the kubelet.
func fromCondition(s *runtimeapi.RuntimeStatus) Status {
	for _, c := range s.GetConditions() {
		if c.GetType() != runtimeapi.NetworkReady {
			continue
		}
		if c.GetStatus() {
			return Status{Ready: true}
		}
		st := Status{Reason: c.GetReason(), Message: c.GetMessage()}
		if st.Reason == "" {
			st.Reason = ReasonNotReady
		}
		if st.Message == "" {
			st.Message = "the container runtime gives no reason"
		}
		return st
	}
	return Status{Reason: ReasonNotReady, Message: "the container runtime reports no condition " + runtimeapi.NetworkReady}
}
