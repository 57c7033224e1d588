package podsync_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// feed is a source that hands over what the test sets.
type feed struct {
	name string
	mu   sync.Mutex
	set  func([]*corev1.Pod)
	pods []*corev1.Pod
	mute bool // not seen yet
	up   chan struct{}
}

func newFeed(name string, pods ...*corev1.Pod) *feed {
	return &feed{name: name, pods: pods, up: make(chan struct{})}
}

func (f *feed) Name() string { return f.name }

func (f *feed) Run(ctx context.Context, set func([]*corev1.Pod)) error {
	f.mu.Lock()
	f.set = set
	if !f.mute {
		set(f.pods)
	}
	f.mu.Unlock()
	close(f.up)
	<-ctx.Done()
	return ctx.Err()
}

func (f *feed) Set(pods ...*corev1.Pod) {
	<-f.up
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(pods)
}

// lines collects what happened, in order, without times.
type lines struct {
	mu sync.Mutex
	l  []string
}

func (l *lines) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l = append(l.l, fmt.Sprintf(format, args...))
}

func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.l, "\n")
	l.l = nil
	return s
}

// Event makes lines an EventRecorder.
func (l *lines) Event(p *corev1.Pod, eventType, reason, _ string) {
	l.add("event %s %s %s", p.Name, eventType, reason)
}

// node is an agent under test with logging stages.
type node struct {
	t      *testing.T
	log    *lines
	events *lines
	cfg    podsync.Config
	agent  *podsync.Agent
	stop   func()
}

func (n *node) stage(ph podsync.Phase, run podsync.StageFunc) *podsync.Builder {
	return podsync.NewBuilder(ph).Append(podsync.NewStage("log", func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
		n.log.add("%s %s", ph, s.Pod().Name)
		if run == nil {
			return podsync.Continue()
		}
		return run(ctx, s)
	}))
}

func newNode(t *testing.T, sources ...podsync.Source) *node {
	n := &node{t: t, log: &lines{}, events: &lines{}}
	n.cfg = podsync.Config{
		Sources: sources, Events: n.events,
		Plan: &podsync.Plan{
			Admit: n.stage(podsync.PhaseAdmit, nil), Sync: n.stage(podsync.PhaseSync, nil),
			Terminating: n.stage(podsync.PhaseTerminating, nil), Terminated: n.stage(podsync.PhaseTerminated, nil),
		},
	}
	return n
}

func (n *node) start() *node {
	n.t.Helper()
	a, err := podsync.New(n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan error, 1)
	n.agent = a
	go func() { done <- a.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("Run: %v", err)
		}
	})
	n.t.Cleanup(n.stop)
	return n
}

func (n *node) expect(want ...string) {
	n.t.Helper()
	synctest.Wait()
	if got := n.log.take(); got != strings.Join(want, "\n") {
		n.t.Errorf("happened:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// expectAnyOrder is expect for what happens to different pods at once.
func (n *node) expectAnyOrder(want ...string) {
	n.t.Helper()
	synctest.Wait()
	got := strings.Split(n.log.take(), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		n.t.Errorf("happened:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestAgentLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file", podsynctest.Pod())
		n := newNode(t, src).start()
		n.expect("admit web", "sync web")
		time.Sleep(91 * time.Second) // one resync lies in [1 min, 1.5 min)
		n.expect("sync web")
		src.Set()
		n.expect("terminating web", "terminated web")
		if _, ok := n.agent.Explain("web-uid"); ok {
			t.Error("a pod that is gone is still known")
		}
		n.stop()
	})
}

func TestAgentOutcomes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file", podsynctest.Pod())
		n := newNode(t, src)
		outs := []podsync.Outcome{
			podsync.Wait(30*time.Second, "NetworkNotReady", "no cni"),
			podsync.Retry(errors.New("boom")),
			podsync.Retry(errors.New("boom")),
			podsync.Continue().Again(0),
			podsync.Continue(),
		}
		var at []time.Duration
		start := time.Now()
		n.cfg.Backoff = func(k int) time.Duration { return time.Duration(k) * 10 * time.Second }
		n.cfg.Plan.Sync = n.stage(podsync.PhaseSync, func(context.Context, *podsync.Sync) podsync.Outcome {
			at = append(at, time.Since(start).Round(time.Second))
			o := outs[0]
			if len(outs) > 1 {
				outs = outs[1:]
			}
			return o
		})
		n.start()
		synctest.Wait()
		e, _ := n.agent.Explain("web-uid")
		if e.State != "sync" || e.Reason != "NetworkNotReady" || e.Stage != "log" || e.NextRun.Sub(start) != 30*time.Second {
			t.Errorf("Explain = %v", e)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if len(at) < 5 || at[0] != 0 || at[1] != 30*time.Second || at[2]+time.Second < at[1]+10*time.Second || at[2] > at[1]+15*time.Second ||
			at[3]+time.Second < at[2]+20*time.Second || at[3] > at[2]+30*time.Second || at[4] != at[3] {
			t.Errorf("runs at %v", at)
		}
		want := "event web Warning NetworkNotReady\nevent web Warning FailedSync"
		if got := n.events.take(); got != want {
			t.Errorf("events:\n%s\nwant, once per change:\n%s", got, want)
		}
		n.stop()
	})
}

func TestAgentTopics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, newFeed("file", podsynctest.Pod()))
		ready := false
		n.cfg.Plan.Sync = n.stage(podsync.PhaseSync, func(context.Context, *podsync.Sync) podsync.Outcome {
			if !ready {
				ready = true
				n.agent.Bus().Publish("example.com/Ready") // between the look and the wait: must not be lost
				return podsync.Wait(time.Hour, "NotReady", "x").WakeOn("example.com/Ready")
			}
			return podsync.Continue()
		})
		n.start()
		n.expect("admit web", "sync web", "sync web")
		n.stop()
	})
}

func TestAgentAdmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var admitted []string
		src := newFeed("file")
		n := newNode(t, src)
		n.cfg.Plan.Admit = n.stage(podsync.PhaseAdmit, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			admitted = nil
			for _, p := range s.Admitted() {
				admitted = append(admitted, p.Name)
			}
			if len(s.Admitted()) >= 2 {
				if s.Pod().Name == "waiter" {
					return podsync.Wait(0, "NoRoom", "full").WakeOn(podsync.TopicRoomFreed)
				}
				return podsync.Reject("OutOfpods", "full")
			}
			return podsync.Continue()
		})
		n.start()
		a, b, c, w := podsynctest.Pod(podsynctest.Named("a")), podsynctest.Pod(podsynctest.Named("b")), podsynctest.Pod(podsynctest.Named("c")), podsynctest.Pod(podsynctest.Named("waiter"))
		src.Set(a, b)
		n.expectAnyOrder("admit a", "admit b", "sync a", "sync b")
		src.Set(a, b, c, w)
		n.expect("admit c", "admit waiter")
		if e, _ := n.agent.Explain("c-uid"); e.State != "finished" || e.Reason != "OutOfpods" {
			t.Errorf("rejected pod: %v", e)
		}
		if e, _ := n.agent.Explain("waiter-uid"); e.State != "admit" || e.Reason != "NoRoom" {
			t.Errorf("waiting pod: %v", e)
		}
		src.Set(b, c, w)
		n.expectAnyOrder("terminating a", "terminated a", "admit waiter", "sync waiter")
		src.Set(b, w) // the rejected pod goes without a trace
		n.expect()
		n.stop()
	})
}

func TestAgentTerminatesOnceAndForAll(t *testing.T) {
	for _, tc := range []struct {
		name string
		out  podsync.Outcome
		want podsync.Termination
	}{
		{"done", podsync.Done("PodCompleted"), podsync.Termination{}},
		{"fail", podsync.Fail("DeadlineExceeded", errors.New("too long")), podsync.Termination{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too long"}},
		{"reject in sync", podsync.Reject("VolumeAttachmentLimitExceeded", "full"), podsync.Termination{Phase: corev1.PodFailed, Reason: "VolumeAttachmentLimitExceeded", Message: "full"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				src := newFeed("file", podsynctest.Pod())
				n := newNode(t, src)
				var got podsync.Termination
				n.cfg.Plan.Sync = n.stage(podsync.PhaseSync, func(context.Context, *podsync.Sync) podsync.Outcome { return tc.out })
				n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
					got = s.Termination()
					return podsync.Continue()
				})
				n.start()
				n.expect("admit web", "sync web", "terminating web", "terminated web")
				if got.Phase != tc.want.Phase || got.Reason != tc.want.Reason || got.Message != tc.want.Message || got.Deleted {
					t.Errorf("termination %+v, want %+v", got, tc.want)
				}
				changed := podsynctest.Pod()
				changed.Labels = map[string]string{"x": "y"}
				src.Set(changed)
				time.Sleep(time.Hour)
				n.expect() // never back
				n.stop()
			})
		})
	}
}

// A delete that comes during a sync ends that sync, is never lost among later
// updates, and runs terminating once.
func TestCase_WRK_08_EventsDuringASync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		block := podsynctest.NewBlock("block")
		src := newFeed("api", podsynctest.Pod())
		n := newNode(t, src)
		n.cfg.Plan.Sync.Append(block, podsync.Detached(), podsync.Timeout(time.Hour))
		n.start()
		n.expect("admit web", "sync web")
		ctx := <-block.Entered
		v2 := podsynctest.Pod()
		v2.Spec.Containers[0].Image = "busybox:2"
		src.Set(v2)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("a newer version cut a detached stage")
		}
		v3 := v2.DeepCopy()
		podsynctest.Deleting(time.Now(), 5*time.Second)(v3)
		src.Set(v3)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), podsync.ErrTerminating) {
			t.Errorf("cause = %v", context.Cause(ctx))
		}
		n.expect("terminating web", "terminated web")
		n.stop()
	})
}

func TestCase_WRK_02_GraceOnlyShrinks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var graces []time.Duration
		src := newFeed("api", podsynctest.Pod())
		n := newNode(t, src)
		block := podsynctest.NewBlock("stop")
		n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			graces = append(graces, s.Grace())
			return podsync.Continue()
		}).Append(block)
		n.start()
		synctest.Wait()
		for _, g := range []time.Duration{120 * time.Second, 60 * time.Second, 90 * time.Second, 0} {
			p := podsynctest.Pod()
			podsynctest.Deleting(time.Now(), g)(p)
			src.Set(p)
			synctest.Wait()
		}
		if want := []time.Duration{120 * time.Second, 60 * time.Second, time.Second}; !slices.Equal(graces, want) {
			t.Errorf("terminating ran with %v, want %v", graces, want)
		}
		block.Release <- podsync.Continue()
		synctest.Wait()
		n.stop()
	})
}

// The same UID comes back while its former life ends: the old one ends first.
func TestCase_WRK_01_SameUIDComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file", podsynctest.Pod())
		n := newNode(t, src)
		n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(context.Context, *podsync.Sync) podsync.Outcome {
			time.Sleep(5 * time.Second)
			return podsync.Continue()
		})
		n.start()
		n.expect("admit web", "sync web")
		src.Set()
		time.Sleep(time.Second)
		src.Set(podsynctest.Pod())
		n.expect("terminating web")
		time.Sleep(5 * time.Second)
		n.expect("terminated web", "admit web", "sync web")
		for i := range 20 {
			src.Set()
			time.Sleep(time.Duration(i*700) * time.Millisecond)
			src.Set(podsynctest.Pod())
			time.Sleep(time.Duration((i*37)%11) * time.Second)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if e, ok := n.agent.Explain("web-uid"); !ok || e.State != "sync" {
			t.Errorf("in the end: %v", e)
		}
		n.stop()
	})
}

func TestCase_WRK_06_ManifestPutBackMuchLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file", podsynctest.Pod())
		n := newNode(t, src).start()
		n.expect("admit web", "sync web")
		src.Set()
		time.Sleep(10 * time.Minute)
		n.expect("terminating web", "terminated web")
		src.Set(podsynctest.Pod())
		n.expect("admit web", "sync web")
		n.stop()
	})
}

// Pods of one full name but different UIDs take turns.
func TestStaticPodsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file", podsynctest.Pod())
		n := newNode(t, src)
		n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			time.Sleep(10 * time.Second)
			n.log.add("stopped %s", s.UID())
			return podsync.Continue()
		})
		n.start()
		n.expect("admit web", "sync web")
		src.Set(podsynctest.Pod(podsynctest.UID("second")))
		time.Sleep(time.Second)
		src.Set(podsynctest.Pod(podsynctest.UID("third"))) // the second never starts
		time.Sleep(time.Second)
		n.expect("terminating web")
		if e, _ := n.agent.Explain("third"); e.State != "waiting for its turn" {
			t.Errorf("third: %v", e)
		}
		time.Sleep(10 * time.Second)
		n.expect("stopped web-uid", "terminated web", "admit web", "sync web")
		n.stop()
	})
}

func TestAgentKill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, newFeed("file", podsynctest.Pod()))
		var got podsync.Termination
		n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			got = s.Termination()
			time.Sleep(s.Grace())
			return podsync.Continue()
		})
		n.start()
		synctest.Wait()
		grace := 3 * time.Second
		start := time.Now()
		if err := n.agent.Kill(t.Context(), "web-uid", podsync.KillOptions{Grace: &grace, Evicted: true, Phase: corev1.PodFailed, Reason: "Evicted", Message: "memory"}); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) != grace || !got.Evicted || got.Reason != "Evicted" {
			t.Errorf("stopped after %v, termination %+v", time.Since(start), got)
		}
		if err := n.agent.Kill(t.Context(), "nobody", podsync.KillOptions{}); !errors.Is(err, podsync.ErrUnknownPod) {
			t.Errorf("unknown pod: %v", err)
		}
		time.Sleep(time.Hour)
		n.expect("admit web", "sync web", "terminating web", "terminated web")
		n.stop()
	})
}

// leftovers is a Cleaner.
type leftovers struct {
	log  *lines
	mu   sync.Mutex
	pods map[types.UID]bool
	fail int
}

func (l *leftovers) Name() string { return "things" }
func (l *leftovers) Pods(context.Context) ([]types.UID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var u []types.UID
	for uid := range l.pods {
		u = append(u, uid)
	}
	return u, nil
}
func (l *leftovers) Remove(_ context.Context, uid types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail > 0 {
		l.fail--
		return errors.New("device busy")
	}
	delete(l.pods, uid)
	l.log.add("cleaned %s", uid)
	return nil
}

// Nothing destructive happens before every source was seen; then what unknown
// pods left is removed, again and again until it is gone.
func TestCase_REC_02_OrphansWaitForEverySource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		late := newFeed("api")
		late.mute = true
		n := newNode(t, newFeed("file", podsynctest.Pod()), late)
		l := &leftovers{log: n.log, pods: map[types.UID]bool{"orphan": true, "web-uid": true}, fail: 2}
		n.cfg.Cleaners = []podsync.Cleaner{l}
		n.start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := n.log.take(); strings.Contains(got, "cleaned") {
			t.Errorf("cleaned before every source was seen:\n%s", got)
		}
		late.Set()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := n.log.take(); strings.Count(got, "cleaned orphan") != 1 || strings.Contains(got, "cleaned web-uid") {
			t.Errorf("after every source was seen:\n%s", got)
		}
		n.stop()
	})
}

// view is a RuntimeView over fixed pods.
type view struct {
	mu      sync.Mutex
	pods    map[types.UID]*podsync.RuntimePod
	down    bool
	changed func(types.UID)
}

func (v *view) Observe(_ context.Context, uid types.UID) (*podsync.RuntimePod, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.pods[uid]; p != nil {
		return p, nil
	}
	return &podsync.RuntimePod{UID: uid}, nil
}

func (v *view) Pods(context.Context) (ps []*podsync.RuntimePod, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down {
		return nil, errors.New("connection refused")
	}
	for _, p := range v.pods {
		ps = append(ps, p)
	}
	return ps, nil
}

func (v *view) Watch(ctx context.Context, changed func(types.UID)) error {
	v.mu.Lock()
	v.changed = changed
	v.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (v *view) Forget(types.UID) {}

// After a restart the pods that ran before are admitted first, even when the
// source of new ones is quicker, for a limited time.
func TestAdmissionAfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := podsynctest.Pod(podsynctest.Named("old"))
		slow := newFeed("api")
		slow.mute = true
		n := newNode(t, newFeed("file", podsynctest.Pod(podsynctest.Named("new"))), slow)
		v := &view{pods: map[types.UID]*podsync.RuntimePod{"old-uid": {UID: "old-uid"}}, down: true}
		n.cfg.Runtime = v
		n.start()
		time.Sleep(time.Minute)
		n.expect() // no runtime, no sync
		v.mu.Lock()
		v.down = false
		v.mu.Unlock()
		time.Sleep(6 * time.Second)
		n.expect()
		slow.Set(old)
		synctest.Wait()
		if got := n.log.take(); strings.Index(got, "admit old") > strings.Index(got, "admit new") {
			t.Errorf("happened:\n%s\nwant old admitted before new", got)
		}
		n.stop()
	})
	bubble(t, func(t *testing.T) {
		slow := newFeed("api")
		slow.mute = true
		n := newNode(t, newFeed("file", podsynctest.Pod(podsynctest.Named("new"))), slow)
		n.cfg.Runtime = &view{pods: map[types.UID]*podsync.RuntimePod{"old-uid": {UID: "old-uid"}}}
		n.start()
		time.Sleep(11 * time.Second)
		n.expect("admit new", "sync new")
		n.stop()
	})
}

func TestRuntimeChangeRunsThePod(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, newFeed("file", podsynctest.Pod()))
		v := &view{}
		n.cfg.Runtime = v
		var causes []podsync.Cause
		n.cfg.Plan.Sync = n.stage(podsync.PhaseSync, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			causes = append(causes, s.Cause())
			return podsync.Continue()
		})
		n.start()
		synctest.Wait()
		v.changed("web-uid")
		v.changed("stranger")
		n.expect("admit web", "sync web", "sync web")
		if want := []podsync.Cause{podsync.CauseCreate, podsync.CauseRuntime}; !slices.Equal(causes, want) {
			t.Errorf("causes %v, want %v", causes, want)
		}
		n.stop()
	})
}

// A pod whose life was over before the agent began is not judged again.
func TestCase_ADM_03_FinishedPodsAreNotAdmitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		done := podsynctest.Pod(podsynctest.Named("done"))
		done.Status.Phase = corev1.PodSucceeded
		n := newNode(t, newFeed("api", done, podsynctest.Pod()))
		var seen []int
		n.cfg.Plan.Admit = n.stage(podsync.PhaseAdmit, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			seen = append(seen, len(s.Admitted()))
			return podsync.Continue()
		})
		n.start()
		synctest.Wait()
		got := n.log.take()
		if strings.Contains(got, "admit done") || strings.Contains(got, "sync done") || !slices.Equal(seen, []int{0}) {
			t.Errorf("happened:\n%s\nadmitted seen: %v", got, seen)
		}
		n.stop()
	})
}

func TestInvalidPodsAreIgnoredAndKeepTheLastGoodVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bad := podsynctest.Pod(podsynctest.Named("bad"))
		bad.UID = "../../etc"
		src := newFeed("file", podsynctest.Pod(), bad)
		n := newNode(t, src).start()
		n.expect("admit web", "sync web")
		broken := podsynctest.Pod()
		broken.Spec.Containers = nil
		src.Set(broken)
		n.expect()
		if e, _ := n.agent.Explain("web-uid"); e.State != "sync" {
			t.Errorf("web: %v", e)
		}
		if got := n.events.take(); got != "event bad Warning FailedValidation\nevent web Warning FailedValidation" {
			t.Errorf("events:\n%s", got)
		}
		n.stop()
	})
}

func TestShutdownLeavesPodsAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		block := podsynctest.NewBlock("block")
		n := newNode(t, newFeed("file", podsynctest.Pod()))
		n.cfg.Plan.Sync.Append(block, podsync.Detached(), podsync.Timeout(time.Hour))
		n.start()
		ctx := <-block.Entered
		n.stop()
		if !errors.Is(context.Cause(ctx), podsync.ErrAgentShutdown) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		n.expect("admit web", "sync web")
	})
}

func TestNewTellsAllMistakes(t *testing.T) {
	_, err := podsync.New(podsync.Config{})
	for _, w := range []string{"Plan is nil", "Sources is empty"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v lacks %q", err, w)
		}
	}
	_, err = podsync.New(podsync.Config{Sources: []podsync.Source{newFeed("a"), newFeed("a")},
		Plan: &podsync.Plan{Sync: podsync.NewBuilder(podsync.PhaseSync).Append(stage(podsync.StageRuntime, cont))}})
	for _, w := range []string{`two sources are named "a"`, `has no "verify-stopped"`} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v lacks %q", err, w)
		}
	}
}

// keeper is a Reporter that remembers statuses from before.
type keeper map[types.UID]corev1.PodStatus

func (keeper) Ended(context.Context, *podsync.Sync, podsync.Phase, podsync.Outcome) {}
func (keeper) Forget(context.Context, types.UID)                                    {}
func (k keeper) Get(uid types.UID) (corev1.PodStatus, bool)                         { st, ok := k[uid]; return st, ok }

// What ended by the node's own word is not run again after a restart, though its
// source does not know; what the node refused is judged anew.
func TestCase_ADM_04_EndedByTheNodesOwnStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		done, refused := podsynctest.Pod(podsynctest.Named("done")), podsynctest.Pod(podsynctest.Named("refused"))
		n := newNode(t, newFeed("file", done, refused))
		n.cfg.Reporter = keeper{
			"done-uid":    {Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}},
			"refused-uid": {Phase: corev1.PodFailed, Reason: "OutOfcpu"},
		}
		n.start()
		synctest.Wait()
		got := n.log.take()
		if strings.Contains(got, "admit done") || strings.Contains(got, "sync done") || !strings.Contains(got, "sync refused") {
			t.Errorf("happened:\n%s", got)
		}
		n.stop()
	})
}

// A pod that is removed while it queues for admission is never judged.
func TestRemovedWhileQueuing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		src := newFeed("file")
		n := newNode(t, src)
		block := podsynctest.NewBlock("block")
		n.cfg.Plan.Admit.Append(block, podsync.Timeout(time.Hour))
		n.start()
		a, b := podsynctest.Pod(podsynctest.Named("a")), podsynctest.Pod(podsynctest.Named("b"))
		src.Set(a, b)
		n.expect("admit a")
		src.Set(a)
		block.Release <- podsync.Continue()
		n.expect("sync a")
		if _, ok := n.agent.Explain("b-uid"); ok {
			t.Error("b is still known")
		}
		src.Set(a, b)
		n.expect("admit b")
		src.Set(a) // while it is judged: its run ends
		n.expect()
		n.stop()
	})
}

// A stage of the admit phase that does not answer holds nobody up for long.
func TestAdmissionDoesNotHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := podsynctest.Pod(podsynctest.Named("slow"))
		n := newNode(t, newFeed("file", slow, podsynctest.Pod()))
		n.cfg.Plan.Admit = n.stage(podsync.PhaseAdmit, func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
			if s.Pod().Name == "slow" {
				<-ctx.Done()
				return podsync.FromErr(ctx.Err())
			}
			return podsync.Continue()
		})
		n.start()
		time.Sleep(1100 * time.Millisecond)
		n.expect("admit slow", "admit web", "sync web")
		n.stop()
	})
}

// An event of a failure that lasts is told once, also when two take turns; one
// that comes back after the pod was well is told again.
func TestEventsAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, newFeed("file", podsynctest.Pod()))
		k := 0
		n.cfg.Plan.Sync = n.stage(podsync.PhaseSync, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
			if k++; k == 7 {
				return podsync.Continue()
			}
			s.Warn("Failed", "container %d cannot start", k%2)
			return podsync.Retry(podsync.WithReason("Failed", errors.New("see the events")))
		})
		n.cfg.Backoff = func(int) time.Duration { return time.Second }
		n.start()
		for range 2 {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if got := strings.Count(n.events.take(), "Failed"); got != 3 { // container 0, container 1, the outcome
				t.Errorf("%d events, want 3", got)
			}
			time.Sleep(70 * time.Second) // the resync after the good run
		}
		n.stop()
	})
}

// A pod that had ended before a restart holds nothing, though its sandbox is
// still there: the pod that ran beside it keeps its place.
func TestCase_ADM_03_EndedPodsHoldNothingAfterARestart(t *testing.T) {
	for _, running := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			done := podsynctest.Pod(podsynctest.Named("done"))
			done.Status.Phase = corev1.PodSucceeded
			n := newNode(t, newFeed("api", done, podsynctest.Pod()))
			state := podsync.ContainerExited
			if running {
				state = podsync.ContainerRunning // ADM-02: it counts while it stops
			}
			n.cfg.Runtime = &view{pods: map[types.UID]*podsync.RuntimePod{
				"done-uid": {UID: "done-uid", Sandboxes: []*podsync.RuntimeSandbox{{ID: "s", Ready: true}}, Containers: []*podsync.RuntimeContainer{{Name: "app", State: state}}},
				"web-uid":  {UID: "web-uid"},
			}}
			n.cfg.Plan.Terminating = n.stage(podsync.PhaseTerminating, func(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
				<-ctx.Done()
				return podsync.FromErr(ctx.Err())
			})
			var seen []int
			n.cfg.Plan.Admit = n.stage(podsync.PhaseAdmit, func(_ context.Context, s *podsync.Sync) podsync.Outcome {
				seen = append(seen, len(s.Admitted()))
				return podsync.Continue()
			})
			n.start()
			synctest.Wait()
			want := 0
			if running {
				want = 1
			}
			if !slices.Equal(seen, []int{want}) {
				t.Errorf("containers running %v: admitted seen %v, want [%d]", running, seen, want)
			}
			n.stop()
		})
	}
}
