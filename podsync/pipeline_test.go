package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func stage(name string, run podsync.StageFunc) podsync.Stage { return podsync.NewStage(name, run) }

func cont(context.Context, *podsync.Sync) podsync.Outcome { return podsync.Continue() }

func build(t *testing.T, b *podsync.Builder) *podsync.Pipeline {
	t.Helper()
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPipelineRunsInOrderAndStops(t *testing.T) {
	var rec podsynctest.Recorder
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script("a")).
		Append(podsynctest.Script("b", podsync.Skip("Nothing"))).
		Append(podsynctest.Script("c", podsync.Wait(time.Second, "NoNet", "no network"))).
		Append(podsynctest.Script("d")).
		Observe(rec.Observe))
	o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
	if want, got := "a=Continue b=Skip(Nothing) c=Wait(NoNet)", rec.String(); got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
	if o.Stage() != "c" || o.Kind() != podsync.KindWait {
		t.Errorf("outcome = %v of stage %q", o, o.Stage())
	}
}

func TestPipelineJoinsAgain(t *testing.T) {
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script("a", podsync.Continue().Again(5*time.Second))).
		Append(podsynctest.Script("b", podsync.Skip("x").Again(2*time.Second))).
		Append(podsynctest.Script("c")))
	o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
	if d, ok := o.RetryAfter(); o.Kind() != podsync.KindContinue || !ok || d != 2*time.Second {
		t.Errorf("outcome = %v, again %v %v; want Continue in 2s", o, d, ok)
	}
}

func TestBuilderEditsByName(t *testing.T) {
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(stage("status", cont)).Append(stage("volumes", cont)).
		Append(stage("pull-secrets", cont)).Append(stage("runtime", cont)).
		Before("runtime", stage("example.com/usb", cont)).
		After("status", stage("network", cont)).
		Remove("example.com/usb").
		Replace("runtime", podsynctest.Script("mock")).
		Parallel("prepare", "volumes", "pull-secrets"))
	if want, got := "sync: status > network > (volumes | pull-secrets) > runtime", p.String(); got != want {
		t.Errorf("pipeline is\n %s, want\n %s", got, want)
	}
	var dot strings.Builder
	if err := p.WriteDOT(&dot); err != nil || !strings.Contains(dot.String(), `"network" -> "volumes"`) {
		t.Errorf("WriteDOT: %v\n%s", err, dot.String())
	}
}

func TestBuildTellsEveryMistakeWithItsFix(t *testing.T) {
	key, list := podsync.NewKey[int]("Key"), podsync.NewList[int]("Tags")
	with := func(name string, needs, provides []podsync.AnyKey) podsync.Stage {
		return podsync.NewStageWith(name, podsync.Deps{Needs: needs, Provides: provides}, cont)
	}
	keys := func(k ...podsync.AnyKey) []podsync.AnyKey { return k }
	b := func() *podsync.Builder { return podsync.NewBuilder(podsync.PhaseSync) }
	for _, tc := range []struct {
		name string
		b    *podsync.Builder
		want []string // parts of the error; none for a good build
	}{
		{"unknown anchor", b().Append(stage("a", cont)).Before("nope", stage("b", cont)),
			[]string{`Before("nope")`, `the sync pipeline has no such stage; it has "a"`}},
		{"duplicate", b().Append(stage("a", cont)).Append(stage("a", cont)), []string{`two stages are named "a"`, `Replace("a"`}},
		{"nil and nameless", b().Append(nil).Append(stage("", cont)), []string{"the stage is nil", "has an empty name"}},
		{"missing key", b().Append(with("volumes", keys(podsync.PodDirs), nil)),
			[]string{`stage "volumes" needs PodDirs, which no earlier stage provides; add volumes.Dirs before it`}},
		{"site key", b().Append(with("x", keys(key), nil)), []string{`Given(Key)`}},
		{"key too late", b().Append(with("use", keys(key), nil)).Append(with("make", nil, keys(key))),
			[]string{`stage "make" does, but later: put it before "use"`}},
		{"two writers", b().Append(with("m1", nil, keys(key))).Append(with("m2", nil, keys(key))),
			[]string{`stage "m2" provides Key, which stage "m1" provides already`}},
		{"many writers of a list", b().Append(with("m1", nil, keys(list))).Append(with("m2", nil, keys(list))), nil},
		{"given key", b().Given(key).Append(with("use", keys(key), nil)), nil},
		{"key inside a group", b().Append(with("make", nil, keys(key))).Append(with("use", keys(key), nil)).Parallel("g", "make", "use"),
			[]string{`stage "use" needs Key of stage "make", which runs beside it in group "g"`}},
		{"lesson 1: After splits a group", b().Append(stage("x", cont)).Append(stage("y", cont)).Parallel("g", "x", "y").After("x", stage("z", cont)),
			[]string{`group "g" is split at "z"`, `Before("x"), After("y")`}},
		{"group of a stranger", b().Append(stage("x", cont)).Parallel("g", "x", "y"), []string{`group "g" names "y", which the pipeline does not have`}},
		{"two groups", b().Append(stage("x", cont)).Append(stage("y", cont)).Append(stage("z", cont)).Parallel("g", "x", "y").Parallel("h", "y", "z"),
			[]string{`stage "y" is in two groups`}},
		{"group of one", b().Append(stage("x", cont)).Parallel("g", "x"), []string{"at least two stages"}},
		{"detached without timeout", b().Append(stage("x", cont), podsync.Detached()), []string{`stage "x" is Detached without a Timeout`}},
		{"protected", b().Append(stage(podsync.StageVerifyStopped, cont)).Remove(podsync.StageVerifyStopped), []string{"cannot be removed"}},
		{"group shrinks to one", b().Append(stage("x", cont)).Append(stage("y", cont)).Parallel("g", "x", "y").Remove("y"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.b.Build()
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("Build: %v", err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
	_, err := b().Append(nil).Before("nope", stage("b", cont)).Append(stage("x", cont), podsync.Detached()).Build()
	for _, w := range []string{"nil", "nope", "Detached"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("all mistakes should be told at once; %q is missing in: %v", w, err)
		}
	}
}

// Lesson 2: who writes is known, for each stage has its own view.
func TestUndeclaredWriteFails(t *testing.T) {
	key := podsync.NewKey[int]("Key")
	var got error
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(podsync.NewStageWith("owner", podsync.Deps{Provides: []podsync.AnyKey{key}}, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			return podsync.FromErr(key.Set(s, 1))
		})).
		Append(stage("thief", func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			got = key.Set(s, 2)
			return podsync.Continue()
		})).
		Append(stage("reader", func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			if v, ok := key.Get(s); !ok || v != 1 {
				return podsync.Retry(fmt.Errorf("key is %d, %v", v, ok))
			}
			return podsync.Continue()
		})))
	if o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); o.Stops() {
		t.Error(o)
	}
	var ue *podsync.UndeclaredWriteError
	if !errors.As(got, &ue) || ue.Stage != "thief" || ue.Key != "Key" {
		t.Errorf("undeclared write gave %v", got)
	}
}

func TestEndsOfContexts(t *testing.T) {
	errOwn := errors.New("gave up")
	for _, tc := range []struct {
		name   string
		cancel error // cause to end the run with, nil for not
		run    podsync.StageFunc
		opts   []podsync.StageOption
		want   podsync.Kind
		is     error
	}{
		{"lesson 3: canceled while the parent lives", nil,
			func(context.Context, *podsync.Sync) podsync.Outcome { return podsync.FromErr(context.Canceled) }, nil, podsync.KindRetry, context.Canceled},
		{"lesson 4: time-out is Retry", nil,
			func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
				<-ctx.Done()
				return podsync.FromErr(ctx.Err())
			},
			[]podsync.StageOption{podsync.Timeout(time.Minute)}, podsync.KindRetry, context.DeadlineExceeded},
		{"lesson 4: end of the parent is Canceled with its cause", podsync.ErrTerminating,
			func(ctx context.Context, _ *podsync.Sync) podsync.Outcome { <-ctx.Done(); return podsync.Retry(errOwn) }, nil, podsync.KindCanceled, podsync.ErrTerminating},
		{"lesson 9: detached lives through a newer version", podsync.ErrSuperseded,
			func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
				select {
				case <-ctx.Done():
					return podsync.FromErr(ctx.Err())
				case <-time.After(time.Second):
					return podsync.Done("Finished")
				}
			}, []podsync.StageOption{podsync.Detached(), podsync.Timeout(time.Minute)}, podsync.KindDone, nil},
		{"lesson 9: detached gives way to termination", podsync.ErrTerminating,
			func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
				<-ctx.Done()
				return podsync.FromErr(ctx.Err())
			},
			[]podsync.StageOption{podsync.Detached(), podsync.Timeout(time.Minute)}, podsync.KindCanceled, podsync.ErrTerminating},
		{"a stage's own deadline is Retry", nil,
			func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				<-ctx.Done()
				return podsync.FromErr(ctx.Err())
			}, nil, podsync.KindRetry, context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.cancel != nil {
					time.AfterFunc(10*time.Millisecond, func() { cancel(tc.cancel) })
				}
				p := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(stage("x", tc.run), tc.opts...))
				o := p.Run(ctx, podsync.NewSync(podsynctest.Pod()))
				if o.Kind() != tc.want || (tc.is != nil && !errors.Is(o.Err(), tc.is)) {
					t.Errorf("outcome = %v (err %v), want %v of %v", o, o.Err(), tc.want, tc.is)
				}
			})
		})
	}
}

// Lesson 5: panics are contained, in groups too.
func TestPanicsAreContained(t *testing.T) {
	boom := func(context.Context, *podsync.Sync) podsync.Outcome { panic("boom") }
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(stage("a", cont)).Append(stage("b", boom)).Parallel("g", "a", "b"))
	o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
	var pe *podsync.PanicError
	if o.Kind() != podsync.KindRetry || !errors.As(o.Err(), &pe) || pe.Stage != "b" || len(pe.Stack) == 0 {
		t.Errorf("outcome = %v", o)
	}
}

// Lesson 6: nil errors are decided.
func TestNilErrors(t *testing.T) {
	if o := podsync.Retry(nil); o.Kind() != podsync.KindContinue {
		t.Errorf("Retry(nil) = %v", o)
	}
	if o := podsync.Fail("Broken", nil); o.Kind() != podsync.KindFail || o.Reason() != "Broken" || o.Message() != "" || o.Err() == nil {
		t.Errorf("Fail(r, nil) = %v", o)
	}
}

// Lesson 8: whatever stops admission but Done undoes it, in reverse.
func TestUndo(t *testing.T) {
	for _, tc := range []struct {
		out  podsync.Outcome
		want int
	}{
		{podsync.Reject("OutOfcpu", "no"), 1}, {podsync.Wait(time.Second, "W", "w"), 1},
		{podsync.Retry(errors.New("x")), 1}, {podsync.Done("Enough"), 0}, {podsync.Continue(), 0},
	} {
		t.Run(tc.out.Kind().String(), func(t *testing.T) {
			first, second, third := podsynctest.Script("first"), podsynctest.Script("second", tc.out), podsynctest.Script("third")
			var rec podsynctest.Recorder
			p := build(t, podsync.NewBuilder(podsync.PhaseAdmit).Append(first).Append(second).Append(third).Observe(rec.Observe))
			p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
			if first.Undos() != tc.want || second.Undos() != tc.want || third.Undos() != 0 {
				t.Errorf("undone %d, %d, %d times", first.Undos(), second.Undos(), third.Undos())
			}
			if tc.want == 1 && !strings.HasSuffix(rec.String(), "undo:second=Continue undo:first=Continue") {
				t.Errorf("not undone in reverse: %s", &rec)
			}
		})
	}
}

// Lesson 10: Replace keeps the place's options.
func TestReplaceKeepsOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := podsync.NewBuilder(podsync.PhaseSync).Append(stage("runtime", cont), podsync.Timeout(time.Second))
		b.Replace("runtime", stage("slow", func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
			<-ctx.Done()
			return podsync.FromErr(ctx.Err())
		}))
		o := build(t, b).Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
		var te *podsync.TimeoutError
		if !errors.As(o.Err(), &te) || te.Stage != "runtime" || te.After != time.Second {
			t.Errorf("outcome = %v", o)
		}
	})
}

func TestGroupJoinsOutcomes(t *testing.T) {
	wait := func(d time.Duration, topic podsync.Topic) podsync.Outcome {
		return podsync.Wait(d, "W", "w").WakeOn(topic)
	}
	for _, tc := range []struct {
		name string
		a, b podsync.Outcome
		want podsync.Kind
	}{
		{"both continue", podsync.Continue(), podsync.Skip("x"), podsync.KindContinue},
		{"both skip", podsync.Skip("x"), podsync.Skip("y"), podsync.KindContinue},
		{"wait beats continue", podsync.Continue(), wait(1, "a"), podsync.KindWait},
		{"retry beats wait", podsync.Retry(errors.New("x")), wait(1, "a"), podsync.KindRetry},
		{"reject beats retry", podsync.Retry(errors.New("x")), podsync.Reject("No", "no"), podsync.KindReject},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, pair := range [][2]podsync.Outcome{{tc.a, tc.b}, {tc.b, tc.a}} {
				p := build(t, podsync.NewBuilder(podsync.PhaseSync).
					Append(podsynctest.Script("a", pair[0])).Append(podsynctest.Script("b", pair[1])).Parallel("g", "a", "b"))
				if o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); o.Kind() != tc.want {
					t.Errorf("outcome = %v, want %v", o, tc.want)
				}
			}
		})
	}
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script("a", wait(time.Minute, "A"))).Append(podsynctest.Script("b", wait(time.Second, "B"))).Parallel("g", "a", "b"))
	o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
	if d, _ := o.RetryAfter(); d != time.Second || len(o.Wake()) != 2 {
		t.Errorf("waits joined to %v on %v; want the shorter time and both topics", d, o.Wake())
	}
}

func TestGroupSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished, cut atomic.Bool
		slow := stage("slow", func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
			select {
			case <-time.After(time.Second):
				finished.Store(true)
				return podsync.Continue()
			case <-ctx.Done():
				cut.Store(errors.Is(context.Cause(ctx), podsync.ErrSibling))
				return podsync.FromErr(ctx.Err())
			}
		})
		for _, o := range []podsync.Outcome{podsync.Wait(1, "W", "w"), podsync.Reject("No", "no")} {
			finished.Store(false)
			p := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(stage("quick", func(context.Context, *podsync.Sync) podsync.Outcome {
				time.Sleep(time.Millisecond) // so that the sibling has begun
				return o
			})).Append(slow).Parallel("g", "quick", "slow"))
			if got := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); got.Kind() != o.Kind() {
				t.Errorf("outcome = %v, want %v", got, o)
			}
			if rejected := o.Kind() == podsync.KindReject; finished.Load() == rejected || cut.Load() != rejected {
				t.Errorf("after %v: sibling finished %v, cut %v", o, finished.Load(), cut.Load())
			}
		}
	})
}

// prompt is a stage that says that it will not block.
type prompt struct {
	podsync.Stage
	ask func() bool
}

func (p prompt) Prompt(*podsync.Sync) bool { return p.ask() }

// A prompt member of a group runs beside those that are not, and whatever it
// says: each member runs once, and a panic of the question is no panic of the run.
func TestGroupPrompt(t *testing.T) {
	yes := func() bool { return true }
	for _, tc := range []struct {
		name string
		ask  func() bool
		opts []podsync.StageOption
	}{
		{"prompt", yes, nil},
		{"not prompt", func() bool { return false }, nil},
		{"panics", func() bool { panic("no") }, nil},
		{"with a middleware", yes, []podsync.StageOption{podsync.Wrap(func(_ podsync.StageInfo, next podsync.StageFunc) podsync.StageFunc { return next })}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				met := make(chan bool)
				var slow, quick int
				p := build(t, podsync.NewBuilder(podsync.PhaseSync).
					Append(prompt{stage("quick", func(context.Context, *podsync.Sync) podsync.Outcome {
						quick++
						return podsync.Skip("Nothing")
					}), tc.ask}, tc.opts...).
					Append(stage("slow", func(context.Context, *podsync.Sync) podsync.Outcome {
						slow++
						<-met
						return podsync.Continue()
					})).
					Append(stage("other", func(context.Context, *podsync.Sync) podsync.Outcome {
						met <- true // only beside slow
						return podsync.Continue()
					})).Parallel("g", "quick", "slow", "other"))
				if o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); o.Kind() != podsync.KindContinue {
					t.Errorf("outcome = %v", o)
				}
				if slow != 1 || quick != 1 {
					t.Errorf("slow ran %d times, quick %d; want one each", slow, quick)
				}
			})
		})
	}
}

func TestPhasesThatCannotGiveUp(t *testing.T) {
	for _, ph := range []podsync.Phase{podsync.PhaseTerminating, podsync.PhaseTerminated} {
		for _, o := range []podsync.Outcome{podsync.Reject("No", "no"), podsync.Fail("No", nil)} {
			p := build(t, podsync.NewBuilder(ph).Append(podsynctest.Script("x", o)))
			if got := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); got.Kind() != podsync.KindRetry {
				t.Errorf("%s in %s = %v, want Retry", o, ph, got)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var in, most atomic.Int32
		p := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(stage("x", func(context.Context, *podsync.Sync) podsync.Outcome {
			most.Store(max(most.Load(), in.Add(1)))
			time.Sleep(time.Second)
			in.Add(-1)
			return podsync.Continue()
		}), podsync.Limit(2), podsync.Timeout(1500*time.Millisecond)))
		done := make(chan podsync.Outcome)
		for i := range 6 {
			go func() {
				done <- p.Run(t.Context(), podsync.NewSync(podsynctest.Pod(podsynctest.Named(fmt.Sprint("p", i)))))
			}()
		}
		for range 6 {
			if o := <-done; o.Stops() {
				t.Errorf("waiting for a place counted towards the time-out: %v", o)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d pods were in the stage at once, want 2", most.Load())
		}
	})
}

func TestMiddlewareIsSeenByObservers(t *testing.T) {
	var rec podsynctest.Recorder
	dry := func(i podsync.StageInfo, next podsync.StageFunc) podsync.StageFunc {
		return func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
			if i.Name == "runtime" {
				return podsync.Skip("DryRun")
			}
			return next(ctx, s)
		}
	}
	p := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(podsynctest.Script("status")).Append(podsynctest.Script("runtime", podsync.Retry(errors.New("x")))).
		Use(dry).Observe(rec.Observe))
	p.Run(t.Context(), podsync.NewSync(podsynctest.Pod()))
	if want := "status=Continue runtime=Skip(DryRun)"; rec.String() != want {
		t.Errorf("ran %s, want %s", &rec, want)
	}
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flaky := podsynctest.Script("x", podsync.Retry(errors.New("1")), podsync.Retry(errors.New("2")), podsync.Continue())
		p := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(flaky, podsync.Wrap(podsync.Attempts(3, time.Second))))
		if o := p.Run(t.Context(), podsync.NewSync(podsynctest.Pod())); o.Stops() || len(flaky.Calls()) != 3 {
			t.Errorf("outcome %v after %d attempts", o, len(flaky.Calls()))
		}
	})
}

func TestPipelineIsAStage(t *testing.T) {
	key := podsync.NewKey[string]("Inner")
	inner := build(t, podsync.NewBuilder(podsync.PhaseAdmit).Append(podsync.NewStageWith("set", podsync.Deps{Provides: []podsync.AnyKey{key}},
		func(_ context.Context, s *podsync.Sync) podsync.Outcome { return podsync.FromErr(key.Set(s, "v")) })))
	outer := build(t, podsync.NewBuilder(podsync.PhaseSync).Append(inner).
		Append(podsync.NewStageWith("get", podsync.Deps{Needs: []podsync.AnyKey{key}}, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			if v, _ := key.Get(s); v != "v" {
				return podsync.Fail("Lost", nil)
			}
			return podsync.Continue()
		})))
	s := podsync.NewSync(podsynctest.Pod())
	if o := outer.Run(t.Context(), s); o.Stops() {
		t.Error(o)
	}
	if want, got := "set=Continue admit=Continue get=Continue", s.Trace().String(); got != want {
		t.Errorf("trace %q, want %q", got, want)
	}
}

func TestFromErr(t *testing.T) {
	deep := fmt.Errorf("while: %w", &podsync.OutcomeError{Outcome: podsync.Wait(time.Second, "NotYet", "wait")})
	for _, tc := range []struct {
		err  error
		kind podsync.Kind
		want string
	}{
		{nil, podsync.KindContinue, ""},
		{deep, podsync.KindWait, "NotYet"},
		{fmt.Errorf("x: %w", context.Canceled), podsync.KindCanceled, ""},
		{podsync.WithReason("FailedMount", errors.New("x")), podsync.KindRetry, "FailedMount"},
	} {
		if o := podsync.FromErr(tc.err); o.Kind() != tc.kind || o.Reason() != tc.want {
			t.Errorf("FromErr(%v) = %v", tc.err, o)
		}
	}
	if o := podsync.Retry(retryAfter{}); o.Kind() != podsync.KindRetry {
		t.Error(o)
	} else if d, ok := o.RetryAfter(); !ok || d != 7*time.Second {
		t.Errorf("an error's own retry time is lost: %v %v", d, ok)
	}
}

type retryAfter struct{}

func (retryAfter) Error() string             { return "later" }
func (retryAfter) RetryAfter() time.Duration { return 7 * time.Second }

func BenchmarkPipeline(b *testing.B) {
	bl := podsync.NewBuilder(podsync.PhaseSync)
	for _, n := range []string{"status", "network", "cgroup", "dirs", "volumes", "pull-secrets", "runtime"} {
		bl.Append(stage(n, cont))
	}
	p, err := bl.Parallel("prepare", "volumes", "pull-secrets").Build()
	if err != nil {
		b.Fatal(err)
	}
	pod := podsynctest.Pod()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		p.Run(ctx, podsync.NewSync(pod))
	}
}
