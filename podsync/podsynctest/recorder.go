package podsynctest

import (
	"context"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/podsync/sdk/podsync"
)

// Recorder notes what stages ran and how they ended. Give its Observe to a
// Builder or a Plan. The zero value is ready; safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	runs []Run
}

// Run is one run of one stage.
type Run struct {
	// Pod is "namespace/name".
	Pod string
	// Stage is the stage; Stage.Undo tells a Run from an Undo.
	Stage podsync.StageInfo
	// Outcome is how it ended.
	Outcome podsync.Outcome
}

// Observe is a podsync.Observer.
func (r *Recorder) Observe(ctx context.Context, i podsync.StageInfo, s *podsync.Sync) (context.Context, func(podsync.Outcome)) {
	pod := s.Pod().Namespace + "/" + s.Pod().Name
	return ctx, func(o podsync.Outcome) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.runs = append(r.runs, Run{Pod: pod, Stage: i, Outcome: o})
	}
}

// Runs returns what ran so far, in the order in which it ended.
func (r *Recorder) Runs() []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Run(nil), r.runs...)
}

// Reset forgets what ran.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = nil
}

// String returns what ran as "a=Continue b=Wait(NoNet) undo:a=Continue".
func (r *Recorder) String() string {
	var parts []string
	for _, run := range r.Runs() {
		name := run.Stage.Name
		if run.Stage.Undo {
			name = "undo:" + name
		}
		parts = append(parts, name+"="+Short(run.Outcome))
	}
	return strings.Join(parts, " ")
}

// Short returns an outcome's kind and reason, as in "Wait(NetworkNotReady)".
func Short(o podsync.Outcome) string {
	if o.Reason() == "" {
		return o.Kind().String()
	}
	return o.Kind().String() + "(" + o.Reason() + ")"
}

// Diff compares two outcomes by kind, reason, message, times and topics, and
// returns what differs, "" for nothing.
func Diff(want, got podsync.Outcome) string {
	type flat struct {
		Kind, Reason, Message string
		After                 string
		Wake                  []podsync.Topic
	}
	f := func(o podsync.Outcome) flat {
		x := flat{Kind: o.Kind().String(), Reason: o.Reason(), Message: o.Message(), Wake: o.Wake()}
		if d, ok := o.RetryAfter(); ok {
			x.After = d.String()
		}
		return x
	}
	return cmp.Diff(f(want), f(got))
}
