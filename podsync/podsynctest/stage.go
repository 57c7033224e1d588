package podsynctest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
)

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }

// StageCase is one situation that the contract of stages is checked in.
type StageCase struct {
	// New returns a fresh stage over fresh backends.
	New func(t *testing.T) podsync.Stage
	// Pod is the pod; nil is Pod().
	Pod *corev1.Pod
	// Given sets the keys that earlier stages would have set.
	Given func(t *testing.T, s *podsync.Sync)
	// Options are given to podsync.NewSync.
	Options []podsync.SyncOption
	// Want is the kind of outcome that a first run gives.
	Want podsync.Kind
}

// Stage checks what every stage owes to the pipeline and to the pods: it can be
// run again and ends the same, it leaves the pod alone, it writes the keys it
// declared and no others, it ends soon when its context has, and that end never
// becomes an end of the pod. Every stage, the SDK's and a site's, should pass it.
func Stage(t *testing.T, c StageCase) {
	t.Helper()
	if c.Pod == nil {
		c.Pod = Pod()
	}
	newSync := func(t *testing.T) *podsync.Sync {
		s := podsync.NewSync(c.Pod, c.Options...)
		if c.Given != nil {
			c.Given(t, s)
		}
		return s
	}
	build := func(t *testing.T, st podsync.Stage) *podsync.Pipeline {
		b := podsync.NewBuilder(podsync.PhaseSync).Append(st)
		if d, ok := st.(podsync.Declarer); ok {
			b.Given(d.Declare().Needs...)
		}
		p, err := b.Build()
		if err != nil {
			t.Fatalf("the stage cannot be built into a pipeline: %v", err)
		}
		return p
	}

	t.Run("name is constant", func(t *testing.T) {
		a, b := c.New(t), c.New(t)
		if a.Name() == "" || a.Name() != a.Name() || a.Name() != b.Name() {
			t.Errorf("Name() = %q, then %q; it must be constant and not empty", a.Name(), b.Name())
		}
	})
	t.Run("can be run again", func(t *testing.T) {
		p := build(t, c.New(t))
		for i, when := range []string{"first", "second", "third"} {
			s := newSync(t)
			before := s.Pod().DeepCopy()
			p.Run(t.Context(), s)
			o := s.Trace().Entries()[0].Outcome
			if i == 0 && o.Kind() != c.Want {
				t.Errorf("%s run = %v, want %v", when, o, c.Want)
			}
			if i > 0 && o.Stops() && c.Want <= podsync.KindSkip {
				t.Errorf("%s run = %v; the first one went on", when, o)
			}
			if d := cmp.Diff(before, s.Pod()); d != "" {
				t.Errorf("%s run changed the pod (-before +after):\n%s", when, d)
			}
		}
	})
	t.Run("provides what it declares", func(t *testing.T) {
		st := c.New(t)
		d, ok := st.(podsync.Declarer)
		if !ok || c.Want != podsync.KindContinue {
			t.Skip("declares nothing, or does not continue in this case")
		}
		s := newSync(t)
		if o := build(t, st).Run(t.Context(), s); o.Kind() != podsync.KindContinue {
			t.Fatalf("run = %v", o)
		}
		for _, k := range d.Declare().Provides {
			if !podsync.Provided(s, k) {
				t.Errorf("the stage declares %s and did not set it", k.Name())
			}
		}
	})
	t.Run("gives way to its context", func(t *testing.T) {
		p := build(t, c.New(t))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(podsync.ErrTerminating)
		done := make(chan podsync.Outcome, 1)
		go func() { done <- p.Run(ctx, newSync(t)) }()
		select {
		case o := <-done:
			if o.Kind() >= podsync.KindDone {
				t.Errorf("run under an ended context = %v; that must not end the pod", o)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("run under an ended context has not returned for 10 s")
		}
	})
	t.Run("different pods at once", func(t *testing.T) {
		p := build(t, c.New(t))
		outs := make(chan podsync.Outcome)
		for range 4 {
			go func() { outs <- p.Run(t.Context(), newSync(t)) }()
		}
		for range 4 {
			<-outs
		}
	})
}
