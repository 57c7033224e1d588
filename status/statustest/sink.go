// Package statustest is the contract of status.Sink as a test that every
// implementation can run.
//
//	func TestSink(t *testing.T) {
//		statustest.Sink(t, func(t *testing.T) status.Sink { return &mySink{…} })
//	}
package statustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/status"
)

// Sink runs the contract of status.Sink, and of status.Loader where the sink is
// one. open returns an empty sink; it is called once for each part.
func Sink(t *testing.T, open func(t *testing.T) status.Sink) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, status.Sink)
	}{
		{"patch is idempotent and the last one holds", patchTwice},
		{"a record is not changed", recordUnchanged},
		{"delete removes, and a second time is no error", deleteTwice},
		{"delete of an unknown pod is no error", deleteUnknown},
		{"patch after delete starts anew", patchAfterDelete},
		{"different pods at once", atOnce},
		{"an ended context is an error", endedContext},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

// Record returns a record of a running pod, the n-th of its kind, for tests.
func Record(n int) status.Record {
	start := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC))
	return status.Record{
		Ref:     status.Ref{UID: types.UID(fmt.Sprintf("0b4f2a1c-0000-4000-8000-%012d", n)), Namespace: "default", Name: fmt.Sprintf("pod-%d", n)},
		Version: uint64(n + 1),
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &start, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
			}},
		},
	}
}

func patchTwice(t *testing.T, k status.Sink) {
	r := Record(0)
	patch(t, k, r)
	patch(t, k, r)
	holds(t, k, r)
	r.Status.Phase, r.Version = corev1.PodSucceeded, r.Version+1
	r.Status.ContainerStatuses = nil
	patch(t, k, r)
	holds(t, k, r)
}

func recordUnchanged(t *testing.T, k status.Sink) {
	r := Record(0)
	before := *r.Status.DeepCopy()
	patch(t, k, r)
	if !apiequality.Semantic.DeepEqual(before, r.Status) {
		t.Errorf("Patch changed the status it was given: %+v", r.Status)
	}
	// The caller may go on to change what it handed over.
	r.Status.ContainerStatuses[0].Ready = false
	want := Record(0)
	holds(t, k, want)
}

func deleteTwice(t *testing.T, k status.Sink) {
	r, other := Record(0), Record(1)
	patch(t, k, r)
	patch(t, k, other)
	for range 2 {
		if err := k.Delete(t.Context(), r.Ref); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	holds(t, k, other)
}

func deleteUnknown(t *testing.T, k status.Sink) {
	if err := k.Delete(t.Context(), Record(0).Ref); err != nil {
		t.Errorf("Delete of a pod that was never patched: %v", err)
	}
	holds(t, k)
}

func patchAfterDelete(t *testing.T, k status.Sink) {
	r := Record(0)
	patch(t, k, r)
	if err := k.Delete(t.Context(), r.Ref); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	r.Status.Phase, r.Version = corev1.PodPending, r.Version+1
	patch(t, k, r)
	holds(t, k, r)
}

func atOnce(t *testing.T, k status.Sink) {
	const n = 20
	var wg sync.WaitGroup
	errs := make([]error, n)
	var want []status.Record
	for i := range n {
		r := Record(i)
		want = append(want, r)
		wg.Go(func() { errs[i] = k.Patch(t.Context(), r) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("Patch of different pods at once: %v", err)
	}
	holds(t, k, want...)
}

func endedContext(t *testing.T, k status.Sink) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Patch(ctx, Record(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("Patch with an ended context: %v, want an error that is context.Canceled", err)
	}
	if err := k.Delete(ctx, Record(0).Ref); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete with an ended context: %v, want an error that is context.Canceled", err)
	}
}

func patch(t *testing.T, k status.Sink, r status.Record) {
	t.Helper()
	if err := k.Patch(t.Context(), r); err != nil {
		t.Fatalf("Patch: %v", err)
	}
}

// holds checks what the sink would give back to an agent that starts again.
func holds(t *testing.T, k status.Sink, want ...status.Record) {
	t.Helper()
	l, ok := k.(status.Loader)
	if !ok {
		return
	}
	got, err := l.Load(t.Context())
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	byUID := map[types.UID]status.Record{}
	for _, r := range got {
		byUID[r.UID] = r
	}
	if len(got) != len(want) || len(byUID) != len(want) {
		t.Fatalf("Load returns %d records of %d pods, want %d", len(got), len(byUID), len(want))
	}
	for _, w := range want {
		g := byUID[w.UID]
		if g.Ref != w.Ref || !apiequality.Semantic.DeepEqual(g.Status, w.Status) {
			t.Errorf("Load returns\n%+v, want\n%+v", g, w)
		}
	}
}
