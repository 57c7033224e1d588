package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/cri/probe"
	"github.com/podsync/sdk/podsync"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a Prober whose results a test sets, by container and type.
type script struct {
	mu      sync.Mutex
	results map[string]probe.Result
	errs    map[string]error
	takes   time.Duration
	runs    []string
}

func (s *script) Probe(ctx context.Context, r probe.Request) (probe.Result, error) {
	key := r.Container.Name + "/" + r.Type.String()
	s.mu.Lock()
	s.runs = append(s.runs, key)
	res, err, takes := s.results[key], s.errs[key], s.takes
	s.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return probe.Result{}, ctx.Err()
		}
	}
	if res.Verdict == plan.Unknown && err == nil {
		res.Verdict = plan.Success
	}
	return res, err
}

func (s *script) set(key string, v plan.Verdict, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[key] = probe.Result{Verdict: v, Message: message}
}

func (s *script) fail(key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[key] = err
}

func (s *script) count(key string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r == key {
			n++
		}
	}
	return n
}

// all are the runs so far.
func (s *script) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

func (s *script) take(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = d
}

// rig is a Manager that runs in a bubble.
type rig struct {
	*probe.Manager
	script *script

	mu      sync.Mutex
	changes []string
	woken   int
	events  []string
}

func (r *rig) Event(_ *corev1.Pod, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, reason+": "+message)
}

func (r *rig) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *rig) wakes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.woken
}

func (r *rig) takeChanges() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.changes
	r.changes = nil
	return c
}

func start(t *testing.T, change func(*probe.Options)) *rig {
	t.Helper()
	r := &rig{script: &script{results: map[string]probe.Result{}, errs: map[string]error{}}}
	o := probe.Options{
		Prober: r.script, Events: r, Spread: func() float64 { return 0.5 },
		Changed: func(_ types.UID, c string, p podsync.ProbeResult) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.changes = append(r.changes, fmt.Sprintf("%s %s started=%v ready=%v", c, p.ContainerID, p.Started, p.Ready))
		},
		Wake: func(types.UID) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.woken++
		},
	}
	if change != nil {
		change(&o)
	}
	m, err := probe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Manager = m
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func each(period, success, failure int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: success, FailureThreshold: failure}
}

func podOf(cs ...corev1.Container) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "ns", "web", "u1"
	p.Spec.Containers = cs
	return p
}

// running is what the runtime holds: instances of that id, started now.
func running(ids map[string]string, started time.Time) *podsync.RuntimePod {
	rp := &podsync.RuntimePod{UID: "u1", IPs: []string{"192.0.2.1"}}
	for name, id := range ids {
		rp.Containers = append(rp.Containers, &podsync.RuntimeContainer{ID: id, Name: name, State: podsync.ContainerRunning, StartedAt: started})
	}
	return rp
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		pod := podOf(corev1.Container{Name: "app", ReadinessProbe: each(10, 1, 2)})
		pod.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 3
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now()))
		want := []string{"app c1 started=true ready=false"}
		if d := cmp.Diff(want, r.takeChanges()); d != "" {
			t.Errorf("a new container is not ready: %s", d)
		}
		time.Sleep(2 * time.Second)
		if n := r.script.count("app/Readiness"); n != 0 {
			t.Errorf("%d runs before the initial delay was over", n)
		}
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"app c1 started=true ready=true"}, r.takeChanges()); d != "" {
			t.Error(d)
		}
		r.script.set("app/Readiness", plan.Failure, "no")
		time.Sleep(10 * time.Second)
		if c := r.takeChanges(); c != nil {
			t.Errorf("one failure of two: %v", c)
		}
		time.Sleep(10 * time.Second)
		if d := cmp.Diff([]string{"app c1 started=true ready=false"}, r.takeChanges()); d != "" {
			t.Error(d)
		}
		if n := r.script.count("app/Readiness"); n != 3 {
			t.Errorf("%d runs in 24 s, want 3", n)
		}
		if d := cmp.Diff([]string{"Unhealthy: Readiness probe failed: no"}, r.told()); d != "" {
			t.Errorf("events: %s", d)
		}
		if n := r.wakes(); n != 2 {
			t.Errorf("the pod was woken %d times, want 2", n)
		}
		// A new instance begins anew, whatever was said of the old one.
		r.Watch(pod, running(map[string]string{"app": "c2"}, time.Now()))
		if d := cmp.Diff([]string{"app c2 started=true ready=false"}, r.takeChanges()); d != "" {
			t.Error(d)
		}
	})
}

func TestLivenessHoldsUntilAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.script.set("app/Liveness", plan.Failure, "dead")
		pod := podOf(corev1.Container{Name: "app", LivenessProbe: each(1, 1, 3)})
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now()))
		time.Sleep(1500 * time.Millisecond)
		if v := r.Liveness("c1"); v != plan.Success {
			t.Errorf("after two failures of three: %v", v)
		}
		time.Sleep(time.Minute)
		if v, n := r.Liveness("c1"), r.script.count("app/Liveness"); v != plan.Failure || n != 3 {
			t.Errorf("verdict %v after %d runs; want failure after 3 and no more", v, n)
		}
		if n := r.wakes(); n != 1 {
			t.Errorf("woken %d times", n)
		}
		r.Watch(pod, running(map[string]string{"app": "c2"}, time.Now()))
		synctest.Wait()
		if v := r.Liveness("c2"); v != plan.Success {
			t.Errorf("the new instance: %v", v)
		}
		if v := r.Liveness("c1"); v != plan.Unknown {
			t.Errorf("the old instance is still known: %v", v)
		}
	})
}

// PRB-03: nothing but the startup probe runs before it has passed; then the
// others begin at once.
func TestCase_PRB_03_StartupGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.script.set("app/Startup", plan.Failure, "not yet")
		pod := podOf(corev1.Container{Name: "app", StartupProbe: each(10, 1, 30), LivenessProbe: each(1, 1, 1), ReadinessProbe: each(60, 1, 1)})
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now()))
		time.Sleep(35 * time.Second)
		if n, m := r.script.count("app/Liveness"), r.script.count("app/Readiness"); n+m > 0 {
			t.Errorf("%d liveness and %d readiness runs before it had started", n, m)
		}
		if v := r.Startup("c1"); v != plan.Unknown {
			t.Errorf("startup: %v", v)
		}
		r.takeChanges()
		r.script.set("app/Startup", plan.Success, "")
		time.Sleep(6 * time.Second)
		if d := cmp.Diff([]string{"app c1 started=true ready=false", "app c1 started=true ready=true"}, r.takeChanges()); d != "" {
			t.Error(d)
		}
		startups := r.script.count("app/Startup")
		time.Sleep(time.Minute)
		if n := r.script.count("app/Startup"); n != startups {
			t.Errorf("the startup probe goes on after it passed: %d runs, then %d", startups, n)
		}
	})
}

// PRB-03: what is being stopped is not killed for its health; readiness goes on.
func TestCase_PRB_03_Deletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		pod := podOf(corev1.Container{Name: "app", LivenessProbe: each(1, 1, 1), ReadinessProbe: each(1, 1, 1)},
			corev1.Container{Name: "slow", StartupProbe: each(1, 1, 1000)})
		r.script.set("slow/Startup", plan.Failure, "no")
		rp := running(map[string]string{"app": "c1", "slow": "c2"}, time.Now())
		r.Watch(pod, rp)
		time.Sleep(2500 * time.Millisecond)
		r.Stopping("u1")
		r.script.set("app/Liveness", plan.Failure, "dead")
		r.script.set("app/Readiness", plan.Failure, "closing")
		r.takeChanges()
		live, up := r.script.count("app/Liveness"), r.script.count("slow/Startup")
		time.Sleep(5 * time.Second)
		if n, m := r.script.count("app/Liveness"), r.script.count("slow/Startup"); n != live || m != up {
			t.Errorf("liveness ran %d more times, startup %d", n-live, m-up)
		}
		if v := r.Liveness("c1"); v != plan.Success {
			t.Errorf("liveness: %v", v)
		}
		if d := cmp.Diff([]string{"app c1 started=true ready=false"}, r.takeChanges()); d != "" {
			t.Errorf("readiness goes on: %s", d)
		}
		r.Forget("u1")
		n := r.script.count("app/Readiness")
		time.Sleep(5 * time.Second)
		if m := r.script.count("app/Readiness"); m != n {
			t.Errorf("a forgotten pod is still probed")
		}
	})
}

// STA-10: a restart of the agent says nothing of a container that ran before it
// until its probe has; one that had started need not do so again.
func TestCase_STA_10_FromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		r := start(t, func(o *probe.Options) {
			o.Previous = func(types.UID) (corev1.PodStatus, bool) {
				return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", ContainerID: "cri://c1", Started: &yes, Ready: false}}}, true
			}
		})
		r.script.set("app/Readiness", plan.Failure, "no")
		pod := podOf(corev1.Container{Name: "app", StartupProbe: each(10, 1, 3), ReadinessProbe: each(10, 1, 1), LivenessProbe: each(10, 1, 1)})
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now().Add(-time.Hour)))
		if c := r.takeChanges(); c != nil {
			t.Errorf("said before any probe ran: %v", c)
		}
		if v := r.Startup("c1"); v != plan.Success {
			t.Errorf("startup: %v", v)
		}
		time.Sleep(4 * time.Second)
		if n := len(r.script.all()); n != 0 {
			t.Errorf("%d runs at once after the start; they are spread over a period", n)
		}
		time.Sleep(2 * time.Second)
		if d := cmp.Diff([]string{"app c1 started=true ready=false"}, r.takeChanges()); d != "" {
			t.Error(d)
		}
		if n := r.script.count("app/Startup"); n != 0 {
			t.Errorf("the startup probe of a started container ran %d times", n)
		}
	})
}

// PRB-01: a run that takes longer than its period is not joined by a second one.
func TestCase_PRB_01_NoPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.script.take(10 * time.Second)
		pod := podOf(corev1.Container{Name: "app", ReadinessProbe: each(3, 1, 1)})
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now()))
		time.Sleep(9 * time.Second)
		if n := r.script.count("app/Readiness"); n != 1 {
			t.Errorf("%d runs at once", n)
		}
		time.Sleep(10 * time.Second)
		if n := r.script.count("app/Readiness"); n != 2 {
			t.Errorf("%d runs in 19 s of 10 s each", n)
		}
	})
}

// What cannot be run is tried three times at once, is told, and counts for nothing.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		r.script.fail("app/Liveness", errors.New("no runtime"))
		pod := podOf(corev1.Container{Name: "app", LivenessProbe: each(10, 1, 1)})
		r.Watch(pod, running(map[string]string{"app": "c1"}, time.Now()))
		synctest.Wait()
		if n := r.script.count("app/Liveness"); n != 3 {
			t.Errorf("%d tries, want 3", n)
		}
		time.Sleep(25 * time.Second)
		if v := r.Liveness("c1"); v != plan.Success {
			t.Errorf("verdict: %v", v)
		}
		if d := cmp.Diff([]string{"Unhealthy: Liveness probe errored and resulted in unknown state: no runtime"}, r.told()); d != "" {
			t.Errorf("told once a minute: %s", d)
		}
	})
}

// No more run at once than there are workers, and all get their turn.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *probe.Options) { o.Workers = 2 })
		r.script.take(time.Second)
		var cs []corev1.Container
		ids := map[string]string{}
		for i := range 7 {
			name := fmt.Sprintf("c%d", i)
			cs = append(cs, corev1.Container{Name: name, ReadinessProbe: each(100, 1, 1)})
			ids[name] = "id" + name
		}
		r.Watch(podOf(cs...), running(ids, time.Now()))
		for sec, want := range []int{2, 4, 6, 7} {
			synctest.Wait()
			if n := len(r.script.all()); n != want {
				t.Errorf("after %d s: %d runs, want %d", sec, n, want)
			}
			time.Sleep(1001 * time.Millisecond)
		}
		runs := r.script.all()
		slices.Sort(runs)
		if n := len(slices.Compact(runs)); n != 7 {
			t.Errorf("%d of 7 probes had their turn", n)
		}
	})
}

// A container that ended is not probed; nor is one that is gone from the runtime.
func TestEndedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		pod := podOf(corev1.Container{Name: "app", ReadinessProbe: each(1, 1, 1)})
		rp := running(map[string]string{"app": "c1"}, time.Now())
		r.Watch(pod, rp)
		time.Sleep(1500 * time.Millisecond)
		ended := *rp.Containers[0]
		ended.State = podsync.ContainerExited
		r.Watch(pod, &podsync.RuntimePod{UID: "u1", Containers: []*podsync.RuntimeContainer{&ended}})
		n := r.script.count("app/Readiness")
		time.Sleep(5 * time.Second)
		if m := r.script.count("app/Readiness"); m != n {
			t.Errorf("%d more runs of an ended container", m-n)
		}
	})
}

// BenchmarkSchedule is the cost of scheduling 500 probes of period 1 s, without the
// probes themselves: CPU time a probe. Times 500 it is what a second costs.
func BenchmarkSchedule(b *testing.B) {
	ran := make(chan struct{}, 1024)
	m, err := probe.New(probe.Options{Prober: proberFunc(func(context.Context, probe.Request) (probe.Result, error) {
		ran <- struct{}{}
		return probe.Result{Verdict: plan.Success}, nil
	}), Workers: 64})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	for i := range 500 {
		p := podOf(corev1.Container{Name: "app", LivenessProbe: each(1, 1, 3)})
		p.UID = types.UID(fmt.Sprint(i))
		rp := running(map[string]string{"app": fmt.Sprint("c", i)}, time.Now())
		m.Watch(p, rp)
	}
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		<-ran
	}
	b.ReportMetric(float64((cpu(b)-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
	cancel()
	go func() {
		for range ran {
		}
	}()
	if err := <-done; err != nil {
		b.Error(err)
	}
	close(ran)
}

type proberFunc func(context.Context, probe.Request) (probe.Result, error)

func (f proberFunc) Probe(ctx context.Context, r probe.Request) (probe.Result, error) {
	return f(ctx, r)
}

func Example() {
	m, err := probe.New(probe.Options{
		Prober: proberFunc(func(context.Context, probe.Request) (probe.Result, error) {
			return probe.Result{Verdict: plan.Success}, nil
		}),
		Changed: func(_ types.UID, container string, r podsync.ProbeResult) { fmt.Println(container, r.Ready) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := podOf(corev1.Container{Name: "app", ReadinessProbe: each(1, 1, 1)})
	m.Watch(pod, running(map[string]string{"app": "c1"}, time.Now())) // m.Run(ctx) runs what is due
	fmt.Println(m.Stage().Name(), m.StopStage().Name())
	// Output:
	// app false
	// probes stop-probes
}
