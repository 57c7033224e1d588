package probe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cri/plan"
)

func TestNext(t *testing.T) {
	const u, s, f = plan.Unknown, plan.Success, plan.Failure
	for _, tc := range []struct {
		name             string
		typ              Type
		success, failure int32
		begin            state
		results          []plan.Verdict
		want             plan.Verdict
		hold             bool
	}{
		{"readiness: one success is enough", Readiness, 1, 3, state{verdict: f}, []plan.Verdict{s}, s, false},
		{"readiness: successes in a row", Readiness, 3, 1, state{verdict: f}, []plan.Verdict{s, s, f, s, s}, f, false},
		{"readiness: three in a row", Readiness, 3, 1, state{verdict: f}, []plan.Verdict{s, s, s}, s, false},
		{"readiness: failures below the threshold", Readiness, 1, 3, state{verdict: s}, []plan.Verdict{f, f, s, f, f}, s, false},
		{"readiness: failures reach it", Readiness, 1, 3, state{verdict: s}, []plan.Verdict{f, f, f}, f, false},
		{"liveness: holds after it failed", Liveness, 1, 2, state{verdict: s}, []plan.Verdict{f, f}, f, true},
		{"liveness: goes on while well", Liveness, 1, 2, state{verdict: s}, []plan.Verdict{f, s, f, s}, s, false},
		{"startup: holds after it passed", Startup, 1, 3, state{}, []plan.Verdict{f, s}, s, true},
		{"startup: holds after it failed", Startup, 1, 2, state{}, []plan.Verdict{f, f}, f, true},
		{"startup: not decided", Startup, 1, 3, state{}, []plan.Verdict{f, f}, u, false},
		{"what cannot be run counts for nothing", Liveness, 1, 2, state{verdict: s}, []plan.Verdict{f, u, u, u}, s, false},
		{"nor does it break a row", Liveness, 1, 2, state{verdict: s}, []plan.Verdict{f, u, f}, f, true},
		{"a threshold of 0 is 1", Liveness, 0, 0, state{verdict: s}, []plan.Verdict{f}, f, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			st := tc.begin
			for _, r := range tc.results {
				st = st.next(tc.typ, r, &corev1.Probe{SuccessThreshold: tc.success, FailureThreshold: tc.failure})
			}
			if st.verdict != tc.want || st.hold != tc.hold {
				t.Errorf("verdict %v, hold %v; want %v, %v", st.verdict, st.hold, tc.want, tc.hold)
			}
		})
	}
}

// The verdict is that of the last row that was long enough, by a second reading
// of the rule.
func TestNextProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &corev1.Probe{SuccessThreshold: rapid.Int32Range(1, 4).Draw(rt, "success"), FailureThreshold: rapid.Int32Range(1, 4).Draw(rt, "failure")}
		results := rapid.SliceOf(rapid.SampledFrom([]plan.Verdict{plan.Success, plan.Failure})).Draw(rt, "results")
		st, want := state{verdict: plan.Failure}, plan.Failure
		for i := range results {
			st = st.next(Readiness, results[i], p)
			row := int32(1)
			for j := i; j > 0 && results[j-1] == results[i]; j-- {
				row++
			}
			if results[i] == plan.Success && row >= p.SuccessThreshold || results[i] == plan.Failure && row >= p.FailureThreshold {
				want = results[i]
			}
			if st.verdict != want {
				rt.Fatalf("after %v: %v, want %v", results[:i+1], st.verdict, want)
			}
		}
	})
}

func TestBegan(t *testing.T) {
	for _, tc := range []struct {
		name          string
		typ           Type
		seen, started bool
		want          plan.Verdict
		hold          bool
	}{
		{"new: not ready", Readiness, false, false, plan.Failure, false},
		{"from before: as it was said", Readiness, true, true, plan.Unknown, false},
		{"new: alive", Liveness, false, false, plan.Success, false},
		{"from before: alive", Liveness, true, true, plan.Success, false},
		{"new: not started", Startup, false, false, plan.Unknown, false},
		{"from before, had started", Startup, true, true, plan.Success, true},
		{"from before, had not", Startup, true, false, plan.Unknown, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if st := began(tc.typ, tc.seen, tc.started); st.verdict != tc.want || st.hold != tc.hold {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	start := time.Unix(1000, 0)
	p := &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 10, TimeoutSeconds: 2}
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, tc := range []struct {
		name      string
		got, want time.Time
	}{
		{"at once, but after the delay", first(start, start, p, false, .5), after(5)},
		{"the delay is over", first(after(7), start, p, false, .5), after(7)},
		{"after a restart: spread over a period", first(after(100), start, p, true, .5), after(105)},
		{"after a restart: the delay still counts", first(after(1), start, p, true, .5), after(5)},
		{"a period after the last was due", again(after(6), after(5), p), after(15)},
		{"at once when it took longer than a period", again(after(17), after(5), p), after(17)},
	} {
		if !tc.got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, tc.got.Sub(start), tc.want.Sub(start))
		}
	}
	if d := timeout(p); d != 2*time.Second {
		t.Errorf("timeout %s", d)
	}
	if d, to := period(&corev1.Probe{}), timeout(&corev1.Probe{}); d != 10*time.Second || to != time.Second {
		t.Errorf("defaults: period %s, timeout %s", d, to)
	}
}
