package status_test

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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// start runs a manager until the test ends.
func start(t *testing.T, m *status.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(stop)
	return stop
}

// publish runs the status stage for a pod of that UID with a runtime that shows
// n restarts.
func publish(t *testing.T, m *status.Manager, uid string, n int) {
	t.Helper()
	pod := newPod(always, "a")
	pod.UID, pod.Name = types.UID(uid), uid
	s := podsync.NewSync(pod, podsync.WithRuntimePod(restarted(inRuntime().ready(), "a", fmt.Sprint(n), n).done()))
	if o := status.Publish(m).Run(t.Context(), s); o.Stops() {
		t.Fatalf("publish: %v", o)
	}
}

func restartsOf(rs []status.Record) []int32 {
	var out []int32
	for _, r := range rs {
		out = append(out, r.Status.ContainerStatuses[0].RestartCount)
	}
	return out
}

// Pinned behaviour 66: only the newest status is written, once.
func TestManager_BurstIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &status.MemorySink{}
		m := status.New(status.Options{Sinks: []status.Sink{sink}})
		stop := start(t, m)
		for n := range 100 {
			publish(t, m, "p", n)
			publish(t, m, "q", n)
		}
		time.Sleep(time.Second)
		for range 100 {
			publish(t, m, "p", 99) // nothing changed
		}
		time.Sleep(time.Second)
		for _, uid := range []types.UID{"p", "q"} {
			if diff := cmp.Diff([]int32{99}, restartsOf(sink.Writes(uid))); diff != "" {
				t.Errorf("writes of %s (-want +got):\n%s", uid, diff)
			}
		}
		stop()
	})
}

func TestManager_ChangesDuringAWriteAreOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &status.MemorySink{OnPatch: func(context.Context, status.Record) error { time.Sleep(time.Second); return nil }}
		m := status.New(status.Options{Sinks: []status.Sink{sink}, Delay: -1})
		stop := start(t, m)
		publish(t, m, "p", 0)
		synctest.Wait()
		for n := range 50 {
			publish(t, m, "p", n+1)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if diff := cmp.Diff([]int32{0, 50}, restartsOf(sink.Writes("p"))); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		stop()
	})
}

func TestManager_PodsAreWrittenSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		perPod := map[types.UID]int{}
		sink := &status.MemorySink{OnPatch: func(_ context.Context, r status.Record) error {
			mu.Lock()
			now++
			perPod[r.UID]++
			most = max(most, now)
			if perPod[r.UID] > 1 {
				t.Errorf("two writes of pod %s at once", r.UID)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			perPod[r.UID]--
			mu.Unlock()
			return nil
		}}
		m := status.New(status.Options{Sinks: []status.Sink{sink}, Writers: 3})
		stop := start(t, m)
		for i := range 9 {
			publish(t, m, fmt.Sprintf("p%d", i), 0)
		}
		began := time.Now()
		time.Sleep(3*time.Second + 50*time.Millisecond)
		synctest.Wait()
		if most != 3 {
			t.Errorf("%d pods were written at once, want 3", most)
		}
		for i := range 9 {
			if n := len(sink.Writes(types.UID(fmt.Sprintf("p%d", i)))); n != 1 {
				t.Errorf("pod %d: %d writes after %v, want 1", i, n, time.Since(began))
			}
		}
		stop()
	})
}

func TestManager_FailingSinkIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var tries []time.Duration
		began := time.Now()
		broken := &status.MemorySink{OnPatch: func(context.Context, status.Record) error {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Since(began).Round(time.Second))
			if len(tries) <= 5 {
				return errors.New("no route to host")
			}
			return nil
		}}
		healthy := &status.MemorySink{}
		m := status.New(status.Options{Sinks: []status.Sink{broken, healthy}, RetryMin: time.Second, RetryMax: 4 * time.Second})
		stop := start(t, m)
		publish(t, m, "p", 0)
		time.Sleep(2500 * time.Millisecond)
		publish(t, m, "p", 1) // does not shorten the backoff, and the newest is what is written
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second, 15 * time.Second}
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int32{1}, restartsOf(broken.Writes("p"))); diff != "" {
			t.Errorf("writes of the broken sink (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int32{0, 1}, restartsOf(healthy.Writes("p"))); diff != "" {
			t.Errorf("writes of the other sink (-want +got):\n%s", diff)
		}
		publish(t, m, "p", 2) // after a success a change is written at once
		time.Sleep(time.Second)
		if diff := cmp.Diff([]int32{1, 2}, restartsOf(broken.Writes("p"))); diff != "" {
			t.Errorf("writes after it recovered (-want +got):\n%s", diff)
		}
		stop()
	})
}

func TestManager_NowhereToWriteIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries int
		sink := &status.MemorySink{OnPatch: func(context.Context, status.Record) error {
			tries++
			return fmt.Errorf("pod: %w", podsync.ErrNotFound)
		}}
		m := status.New(status.Options{Sinks: []status.Sink{sink}})
		stop := start(t, m)
		publish(t, m, "p", 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries != 1 {
			t.Errorf("%d tries, want 1", tries)
		}
		publish(t, m, "p", 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries != 2 {
			t.Errorf("%d tries after a change, want 2", tries)
		}
		stop()
	})
}

func TestManager_RunWritesTheRestWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &status.MemorySink{}
		m := status.New(status.Options{Sinks: []status.Sink{sink}, Delay: time.Hour})
		stop := start(t, m)
		publish(t, m, "p", 0)
		stop()
		if n := len(sink.Writes("p")); n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		hanging := &status.MemorySink{OnPatch: func(ctx context.Context, _ status.Record) error { <-ctx.Done(); return ctx.Err() }}
		m = status.New(status.Options{Sinks: []status.Sink{hanging}, LastFlush: 3 * time.Second})
		stop = start(t, m)
		publish(t, m, "p", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		began := time.Now()
		stop()
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("Run took %v to end with a sink that hangs, want 3s", d)
		}
	})
}

func TestManager_Flush(t *testing.T) {
	bad := errors.New("disk is full")
	fail := true
	sink := &status.MemorySink{OnPatch: func(_ context.Context, r status.Record) error {
		if fail && r.UID == "p" {
			return bad
		}
		return nil
	}}
	m := status.New(status.Options{Sinks: []status.Sink{sink}})
	publish(t, m, "p", 0)
	publish(t, m, "q", 0)
	err := m.Flush(t.Context())
	if !errors.Is(err, bad) {
		t.Errorf("Flush = %v, want the sink's error", err)
	}
	if len(sink.Writes("q")) != 1 {
		t.Error("one pod's failure kept another's status from being written")
	}
	fail = false
	for range 2 { // backoff is not waited for, and what is written stays written
		if err := m.Flush(t.Context()); err != nil {
			t.Errorf("Flush: %v", err)
		}
	}
	if len(sink.Writes("p")) != 1 {
		t.Errorf("%d writes, want 1", len(sink.Writes("p")))
	}
}

func TestManager_Forget(t *testing.T) {
	var deleted []status.Ref
	sink := &status.MemorySink{OnDelete: func(_ context.Context, r status.Ref) error { deleted = append(deleted, r); return nil }}
	m := status.New(status.Options{Sinks: []status.Sink{sink}})
	flush := func() {
		t.Helper()
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, m, "p", 0)
	flush()
	publish(t, m, "p", 1)
	m.Forget(t.Context(), "p")
	if _, ok := m.Get("p"); ok || len(m.List()) != 0 {
		t.Error("the pod is still known")
	}
	flush()
	if diff := cmp.Diff([]int32{0, 1}, restartsOf(sink.Writes("p"))); diff != "" {
		t.Errorf("a forgotten pod's last status is written first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]status.Ref{{UID: "p", Namespace: "default", Name: "p"}}, deleted); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
	flush()
	m.Forget(t.Context(), "p")
	m.Forget(t.Context(), "never-seen")
	flush()
	if len(deleted) != 1 {
		t.Errorf("deleted again: %v", deleted)
	}

	// The UID comes back before its deletion was written.
	publish(t, m, "p", 5)
	flush()
	m.Forget(t.Context(), "p")
	publish(t, m, "p", 0)
	flush()
	if s, ok := sink.Last("p"); !ok || s.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the new pod's status is %+v (%v); want one that owes nothing to the old pod's", s.ContainerStatuses, ok)
	}
}

func TestManager_ForgetIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		sink := &status.MemorySink{OnDelete: func(context.Context, status.Ref) error {
			if tries++; tries < 3 {
				return errors.New("busy")
			}
			return nil
		}}
		m := status.New(status.Options{Sinks: []status.Sink{sink}})
		stop := start(t, m)
		publish(t, m, "p", 0)
		time.Sleep(time.Second)
		m.Forget(t.Context(), "p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, ok := sink.Last("p"); ok || tries != 3 {
			t.Errorf("still there: %v, after %d tries", ok, tries)
		}
		stop()
	})
}

func TestManager_Restore(t *testing.T) {
	first, second := &status.MemorySink{}, &status.MemorySink{}
	m := status.New(status.Options{Sinks: []status.Sink{first}})
	publish(t, m, "p", 3)
	publish(t, m, "gone", 0)
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The agent starts again, with a sink that it did not have before.
	m = status.New(status.Options{Sinks: []status.Sink{first, second}})
	if err := m.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, ok := m.Get("p"); !ok || s.ContainerStatuses[0].RestartCount != 3 {
		t.Errorf("restored %+v, %v", s, ok)
	}
	publish(t, m, "p", 3)
	publish(t, m, "p", 0)
	s, _ := m.Get("p")
	if s.ContainerStatuses[0].RestartCount != 3 {
		t.Errorf("restart count fell to %d over the restart", s.ContainerStatuses[0].RestartCount)
	}
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(first.Writes("gone")); n != 1 {
		t.Errorf("what the sink holds already was written again (%d writes)", n)
	}

	// Nobody knows the other pod any more.
	c := m.Cleaner()
	uids, err := c.Pods(t.Context())
	slices.Sort(uids)
	if diff := cmp.Diff([]types.UID{"gone", "p"}, uids); diff != "" || err != nil {
		t.Errorf("pods of the cleaner (-want +got):\n%s%v", diff, err)
	}
	if err := c.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	m.Forget(t.Context(), "gone")
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := first.Last("gone"); ok {
		t.Error("the status of a pod that is gone was not removed")
	}
}

func TestManager_Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := status.New(status.Options{})
		got := make(chan int32)
		go func() {
			s, err := m.Wait(t.Context(), "p", func(s corev1.PodStatus) bool { return s.ContainerStatuses[0].RestartCount >= 2 })
			if err != nil {
				t.Errorf("Wait: %v", err)
				close(got)
				return
			}
			got <- s.ContainerStatuses[0].RestartCount
		}()
		for n := range 3 {
			synctest.Wait()
			publish(t, m, "p", n)
		}
		if n := <-got; n != 2 {
			t.Errorf("Wait returned at %d restarts", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := m.Wait(ctx, "p", func(corev1.PodStatus) bool { return false })
		if !errors.Is(err, context.DeadlineExceeded) || s.Phase != run {
			t.Errorf("Wait = %v, %v; want the last status and the context's error", s.Phase, err)
		}
	})
}

func TestManager_GetAndListAreCopies(t *testing.T) {
	m := status.New(status.Options{})
	publish(t, m, "q", 0)
	publish(t, m, "p", 0)
	s, _ := m.Get("p")
	s.ContainerStatuses[0].Ready = false
	l := m.List()
	l[0].Status.ContainerStatuses[0].Ready = false
	if s, _ := m.Get("p"); !s.ContainerStatuses[0].Ready {
		t.Error("what Get or List returned shares memory with the manager")
	}
	if l[0].Name != "p" || l[1].Name != "q" {
		t.Errorf("List is in the order %s, %s", l[0].Name, l[1].Name)
	}
	if m.Phase("p") != run || m.Phase("x") != "" {
		t.Errorf("Phase = %q, %q", m.Phase("p"), m.Phase("x"))
	}
}

// Many pods, many writers, and pods that come and go: under the race detector.
func TestManager_Concurrent(t *testing.T) {
	sink := &status.MemorySink{}
	m := status.New(status.Options{Sinks: []status.Sink{sink, &status.FileSink{Dir: t.TempDir()}}, Delay: -1})
	stop := start(t, m)
	var wg sync.WaitGroup
	for i := range 8 {
		uid := fmt.Sprintf("p%d", i)
		wg.Go(func() {
			for n := range 20 {
				publish(t, m, uid, n)
				if n%7 == 6 {
					m.Forget(t.Context(), types.UID(uid))
				}
				m.List()
			}
		})
		wg.Go(func() {
			for range 5 {
				if err := m.Flush(t.Context()); err != nil {
					t.Errorf("Flush: %v", err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	for i := range 8 {
		uid := types.UID(fmt.Sprintf("p%d", i))
		if s, ok := sink.Last(uid); !ok || s.ContainerStatuses[0].RestartCount != 19 {
			t.Errorf("last status of %s: %v", uid, ok)
		}
		var last uint64
		for _, r := range sink.Writes(uid) {
			if r.Version <= last {
				t.Errorf("pod %s: version %d was written after %d", uid, r.Version, last)
			}
			last = r.Version
		}
	}
}
