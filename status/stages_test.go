package status_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// syncOf makes the state of a run at a time given in seconds.
func syncOf(pod *corev1.Pod, r *runtimePod, now int, opts ...podsync.SyncOption) *podsync.Sync {
	return podsync.NewSync(pod, append([]podsync.SyncOption{
		podsync.WithRuntimePod(r.done()), podsync.WithClock(clocktesting.NewFakePassiveClock(at(now).Time)),
	}, opts...)...)
}

func TestPublish(t *testing.T) {
	limited := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr(int64(30)) }
	old := func(p *corev1.Pod) { p.Status.StartTime = ptr(at(0)) }
	tests := []struct {
		name       string
		sync       *podsync.Sync
		wantKind   podsync.Kind
		wantReason string
		wantAgain  time.Duration
		wantPhase  corev1.PodPhase
	}{
		{"new pod", syncOf(newPod(always, "a"), inRuntime(), 0), podsync.KindContinue, "", 0, pending},
		{"running", syncOf(newPod(always, "a"), inRuntime().ready().runs("a", "1"), 0), podsync.KindContinue, "", 0, run},
		{"crash-looping", syncOf(newPod(always, "a"), inRuntime().ready().ends("a", "1", 1, "Error"), 0), podsync.KindContinue, "", 0, run},
		{"completed", syncOf(newPod(never, "a"), inRuntime().ready().ends("a", "1", 0, "Completed"), 0), podsync.KindDone, "PodCompleted", 0, pending},
		{"failed for good", syncOf(newPod(never, "a"), inRuntime().ready().ends("a", "1", 1, "Error"), 0), podsync.KindDone, "PodCompleted", 0, pending},
		{"terminal in the API", syncOf(with(newPod(always, "a"), func(p *corev1.Pod) { p.Status.Phase = failed }), inRuntime(), 0), podsync.KindDone, "PodCompleted", 0, failed},
		{"before its deadline", syncOf(with(newPod(always, "a"), limited, old), inRuntime().ready().runs("a", "1"), 10), podsync.KindContinue, "", 20 * time.Second, run},
		{"57 after its deadline", syncOf(with(newPod(always, "a"), limited, old), inRuntime().ready().runs("a", "1"), 31), podsync.KindFail, "DeadlineExceeded", 0, run},
		{"completed after its deadline", syncOf(with(newPod(never, "a"), limited, old), inRuntime().ready().ends("a", "1", 0, ""), 31), podsync.KindDone, "PodCompleted", 0, pending},
		{"already being stopped", syncOf(newPod(never, "a"), inRuntime().ready().ends("a", "1", 0, ""), 0, podsync.WithTermination(podsync.Termination{Deleted: true})), podsync.KindContinue, "", 0, pending},
		{"orphan", syncOf(newPod(always, "a"), inRuntime().ready().runs("a", "1"), 0, podsync.WithTermination(podsync.Termination{Orphan: true})), podsync.KindSkip, "Orphan", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := status.New(status.Options{})
			stage := status.Publish(m)
			for i := range 2 { // the second time nothing changed
				o := stage.Run(t.Context(), tt.sync)
				if o.Kind() != tt.wantKind || o.Reason() != tt.wantReason {
					t.Fatalf("run %d: %v, want %v(%s)", i, o, tt.wantKind, tt.wantReason)
				}
				if d, ok := o.RetryAfter(); d != tt.wantAgain || ok != (tt.wantAgain > 0) {
					t.Errorf("run %d: again after %v %v, want %v", i, d, ok, tt.wantAgain)
				}
				s, _ := m.Get("uid-1")
				if s.Phase != tt.wantPhase {
					t.Errorf("run %d: phase %q, want %q", i, s.Phase, tt.wantPhase)
				}
			}
		})
	}
	if got := status.Publish(nil).Name() + " " + status.Stopping(nil).Name() + " " + status.Final(nil).Name(); got != "status status final-status" {
		t.Errorf("names of the stages: %s", got)
	}
}

// The pod's deadline in the words that its status will have.
func TestPublish_DeadlineError(t *testing.T) {
	pod := with(newPod(always, "a"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds, p.Status.StartTime = ptr(int64(30)), ptr(at(0)) })
	o := status.Publish(status.New(status.Options{})).Run(t.Context(), syncOf(pod, inRuntime(), 100))
	var de *status.DeadlineError
	if !errors.As(o.Err(), &de) || de.Seconds != 30 {
		t.Errorf("outcome %v does not carry a DeadlineError", o)
	}
	if want := "the pod was active on the node for longer than its activeDeadlineSeconds of 30"; o.Message() != want {
		t.Errorf("message %q, want %q", o.Message(), want)
	}
}

// STA-06: no terminal phase while containers stop; then one change with all of it.
func TestCase_STA_06_TerminalPhaseIsHeld(t *testing.T) {
	sink := &status.MemorySink{}
	m := status.New(status.Options{Sinks: []status.Sink{sink}})
	pod := newPod(always, "a")
	why := podsync.WithTermination(podsync.Termination{Evicted: true, Phase: failed, Reason: "Evicted", Message: "disk is full"})
	step := func(stage podsync.Stage, s *podsync.Sync, want podsync.Kind) {
		t.Helper()
		if o := stage.Run(t.Context(), s); o.Kind() != want {
			t.Fatalf("%s: %v, want %v", stage.Name(), o, want)
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step(status.Publish(m), syncOf(pod, inRuntime().ready().runs("a", "1"), 1), podsync.KindContinue)
	step(status.Stopping(m), syncOf(pod, inRuntime().ready().runs("a", "1"), 2, why), podsync.KindContinue)
	step(status.Stopping(m), syncOf(pod, inRuntime().ready().runs("a", "1"), 5, why), podsync.KindContinue)
	step(status.Final(m), syncOf(pod, inRuntime().ready().runs("a", "1"), 6, why), podsync.KindRetry)
	step(status.Stopping(m), syncOf(pod, inRuntime().sandbox("sb", false, "").ends("a", "1", 143, "Error"), 12, why), podsync.KindContinue)
	step(status.Final(m), syncOf(pod, inRuntime().sandbox("sb", false, "").ends("a", "1", 143, "Error"), 12, why), podsync.KindContinue)
	step(status.Final(m), syncOf(pod, inRuntime().sandbox("sb", false, "").ends("a", "1", 143, "Error"), 13, why), podsync.KindContinue)

	var got []phaseOf
	for _, w := range sink.Writes("uid-1") {
		got = append(got, phased(w.Status))
	}
	want := []phaseOf{{run, "", ""}, {run, "", ""}, {failed, "Evicted", "disk is full"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	s, _ := m.Get("uid-1")
	for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		if got := short(findCondition(t, s, c)); got != "False PodFailed" {
			t.Errorf("%s is %s", c, got)
		}
	}
	o := status.Final(m).Run(t.Context(), syncOf(pod, inRuntime().ready().runs("a", "1"), 14, why))
	var se *status.StillRunningError
	if !errors.As(o.Err(), &se) {
		t.Errorf("outcome %v does not carry a StillRunningError", o)
	}
}

func TestFinal(t *testing.T) {
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{status.ConfigSourceAnnotation: "file"} }
	deleted := podsync.Termination{Deleted: true}
	stopped := func() *runtimePod { return inRuntime().sandbox("sb", false, "").ends("a", "1", 137, "Error") }
	tests := []struct {
		name        string
		pod         *corev1.Pod
		runtime     *runtimePod
		termination podsync.Termination
		want        phaseOf
	}{
		{"deleted", newPod(always, "a"), stopped(), deleted, phaseOf{failed, "", ""}},
		{"completed", newPod(never, "a"), inRuntime().ends("a", "1", 0, ""), podsync.Termination{}, phaseOf{succeeded, "", ""}},
		{"given up", newPod(always, "a"), stopped(), podsync.Termination{Phase: failed, Reason: "DeadlineExceeded", Message: "m"}, phaseOf{failed, "DeadlineExceeded", "m"}},
		{"static pod whose file is gone", with(newPod(always, "a"), static), stopped(), deleted, phaseOf{run, "", ""}},
		{"static pod that was given up", with(newPod(always, "a"), static), stopped(), podsync.Termination{Phase: failed, Reason: "Evicted"}, phaseOf{failed, "Evicted", ""}},
		{"nothing of it is left", newPod(always, "a"), inRuntime(), deleted, phaseOf{failed, "", ""}},
		{"container of unknown state", newPod(always, "a"), inRuntime().unknown("a", "1"), deleted, phaseOf{failed, "", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := status.New(status.Options{})
			publish := status.Publish(m).Run(t.Context(), syncOf(tt.pod, inRuntime().ready().runs("a", "1"), 0))
			if publish.Stops() {
				t.Fatalf("publish: %v", publish)
			}
			if o := status.Final(m).Run(t.Context(), syncOf(tt.pod, tt.runtime, 5, podsync.WithTermination(tt.termination))); o.Stops() {
				t.Fatalf("final: %v", o)
			}
			s, _ := m.Get("uid-1")
			if diff := cmp.Diff(tt.want, phased(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s.ContainerStatuses[0].State.Terminated == nil {
				t.Errorf("container is %s, want an end", describe(s.ContainerStatuses[0]))
			}
		})
	}
}

func TestStages_OrphansGetNoStatus(t *testing.T) {
	m := status.New(status.Options{})
	s := syncOf(newPod(always, "a"), inRuntime().ready().runs("a", "1"), 0, podsync.WithTermination(podsync.Termination{Orphan: true}))
	for _, stage := range []podsync.Stage{status.Publish(m), status.Stopping(m), status.Final(m)} {
		if o := stage.Run(t.Context(), s); o.Kind() != podsync.KindSkip {
			t.Errorf("%s: %v, want Skip", stage.Name(), o)
		}
	}
	m.Ended(t.Context(), s, podsync.PhaseTerminated, podsync.Continue())
	m.Refresh(s)
	if l := m.List(); len(l) != 0 {
		t.Errorf("statuses of an orphan: %v", l)
	}
}
