package cni

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/podsync/sdk/podsync"
)

// Reasons for a network that is not ready.
const (
	// ReasonNotReady is the kubelet's reason, of events and of the stage's Wait.
	ReasonNotReady = "NetworkNotReady"
	// ReasonUnknown: nobody has answered yet.
	ReasonUnknown = "NetworkUnknown"
	// ReasonNoConfig: there is no usable network configuration.
	ReasonNoConfig = "NoNetworkConfig"
	// ReasonNoPlugin: a plugin that the network needs is not installed.
	ReasonNoPlugin = "NetworkPluginMissing"
)

// Checker knows whether pods can be given a network. Safe for concurrent use.
type Checker interface {
	// Ready tells whether they can, and if not, why: an UpperCamelCase reason and a
	// text for people. It is called in every sync of every pod, answers from what
	// is known already, and does not block for longer than one look at the node.
	Ready(ctx context.Context) (ready bool, reason, message string)
}

// Status is what a Checker of this package knows, for people.
type Status struct {
	// Ready tells whether pods can be given a network.
	Ready bool
	// Reason and Message say why not; empty when Ready.
	Reason, Message string
	// Since is when Ready last changed, or when the first answer came; zero before.
	Since time.Time
	// Network is the name of the network that pods get, as far as known.
	Network string
	// Problems are things that do not keep the network from being ready: a file
	// that is broken, a runtime that did not answer the last question.
	Problems []string
}

// AlwaysReady is a Checker for a node whose runtime needs no time, and for tests.
type AlwaysReady struct{}

var _ Checker = AlwaysReady{}

// Ready returns true.
func (AlwaysReady) Ready(context.Context) (ready bool, reason, message string) { return true, "", "" }

// state is the memory that FromRuntime and FromDir have in common.
type state struct {
	mu      sync.Mutex
	status  Status
	asked   time.Time // when the last look began, zero before
	running bool
	// looking is taken while one looks.
	looking sync.Mutex
}

// get returns what is known.
func (s *state) get() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Since.IsZero() && s.status.Reason == "" {
		st := s.status
		st.Reason, st.Message = ReasonUnknown, "the network has not been looked at yet"
		return st
	}
	return s.status
}

// set notes an answer, and tells of a change: on the bus when the network became
// ready, in the log in any case.
func (s *state) set(now Status, bus *podsync.Bus, log *slog.Logger) {
	s.mu.Lock()
	old := s.status
	now.Since = old.Since
	changed := old.Since.IsZero() || old.Ready != now.Ready
	if changed {
		now.Since = time.Now()
	}
	s.status = now
	s.mu.Unlock()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	switch {
	case !changed && old.Message == now.Message:
	case now.Ready:
		log.Info("the network is ready", "network", now.Network)
	default:
		log.Warn("the network is not ready", "reason", now.Reason, "message", now.Message)
	}
	if changed && now.Ready {
		bus.Publish(podsync.TopicNetworkReady)
	}
}

// fresh looks, unless Run does so or somebody has within maxAge. It is what
// makes a Checker usable with no Run at all.
func (s *state) fresh(ctx context.Context, maxAge time.Duration, look func(context.Context)) {
	due := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.running && (s.asked.IsZero() || time.Since(s.asked) >= maxAge)
	}
	if !due() {
		return
	}
	s.looking.Lock()
	defer s.looking.Unlock()
	if due() && ctx.Err() == nil {
		s.look(ctx, look)
	}
}

// look calls it and notes when it began.
func (s *state) look(ctx context.Context, look func(context.Context)) {
	s.mu.Lock()
	s.asked = time.Now()
	s.mu.Unlock()
	look(ctx)
}

// begin marks that Run is on; the function it returns that it ended.
func (s *state) begin() (end func()) {
	s.mu.Lock()
	s.running = true
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}
}
