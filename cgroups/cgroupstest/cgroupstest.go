// Package cgroupstest holds what every cgroups.Manager must do, as tests, and a Fake.
package cgroupstest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cgroups"
)

// Run tests a Manager that gives pods cgroups. create makes one over a tree that
// holds no pods; it is called once per test and registers its own cleanup. A
// second call of the function it returns makes another Manager over the same
// tree, as after a restart of the process.
func Run(t *testing.T, create func(t *testing.T) func() cgroups.Manager) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, open func() cgroups.Manager)
	}{
		{"EnsureIsIdempotent", ensureIsIdempotent},
		{"ClassesLieApart", classesLieApart},
		{"RemoveIsIdempotent", removeIsIdempotent},
		{"ListFindsAfterRestart", listFindsAfterRestart},
		{"BadUIDHarmsNobody", badUID},
		{"ReduceCPUKeeps", reduceCPUKeeps},
		{"RefreshTiers", refreshTiers},
		{"CanceledContext", canceledContext},
		{"ManyPodsAtOnce", manyPods},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, create(t)) })
	}
}

// Pod returns a pod whose only container requests and limits that much CPU;
// "" leaves it out. Both equal is Guaranteed, none BestEffort.
func Pod(uid types.UID, request, limit string) *corev1.Pod {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if request != "" {
		r.Requests[corev1.ResourceCPU] = resource.MustParse(request)
	}
	if limit != "" {
		r.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
	}
	if request != "" && request == limit {
		r.Requests[corev1.ResourceMemory] = resource.MustParse("64Mi")
		r.Limits[corev1.ResourceMemory] = resource.MustParse("64Mi")
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: r}}},
	}
}

func ensure(t *testing.T, m cgroups.Manager, p *corev1.Pod) string {
	t.Helper()
	parent, err := m.Ensure(t.Context(), p)
	if err != nil {
		t.Fatalf("Ensure(%s): %v", p.UID, err)
	}
	if parent == "" {
		t.Fatalf("Ensure(%s) gave no parent", p.UID)
	}
	return parent
}

func lists(t *testing.T, m cgroups.Manager, want ...types.UID) {
	t.Helper()
	got, err := m.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if d := cmp.Diff(append([]types.UID{}, want...), append([]types.UID{}, got...)); d != "" {
		t.Errorf("List (-want +got):\n%s", d)
	}
}

func ensureIsIdempotent(t *testing.T, open func() cgroups.Manager) {
	m := open()
	p := Pod("a-1", "100m", "200m")
	first := ensure(t, m, p)
	for _, again := range []*corev1.Pod{p, p.DeepCopy(), Pod("a-1", "200m", "400m")} {
		if got := ensure(t, m, again); got != first {
			t.Errorf("parent changed from %q to %q", first, got)
		}
		if err := m.Update(t.Context(), again); err != nil {
			t.Errorf("Update: %v", err)
		}
	}
	lists(t, m, "a-1")
}

func classesLieApart(t *testing.T, open func() cgroups.Manager) {
	m := open()
	parents := []string{ensure(t, m, Pod("a", "", "")), ensure(t, m, Pod("b", "100m", "")), ensure(t, m, Pod("c", "100m", "100m"))}
	slices.Sort(parents)
	if len(slices.Compact(parents)) != 3 {
		t.Errorf("parents %q are not three", parents)
	}
	lists(t, m, "a", "b", "c")
}

func removeIsIdempotent(t *testing.T, open func() cgroups.Manager) {
	m := open()
	for _, p := range []*corev1.Pod{Pod("a", "", ""), Pod("b", "100m", ""), Pod("c", "100m", "100m")} {
		ensure(t, m, p)
	}
	for range 2 {
		for _, uid := range []types.UID{"a", "c", "never-seen"} {
			if err := m.Remove(t.Context(), uid); err != nil {
				t.Errorf("Remove(%s): %v", uid, err)
			}
		}
		lists(t, m, "b")
	}
	// A pod that comes back is made again.
	ensure(t, m, Pod("a", "", ""))
	lists(t, m, "a", "b")
}

func listFindsAfterRestart(t *testing.T, open func() cgroups.Manager) {
	ensure(t, open(), Pod("a-b-c", "100m", ""))
	m := open()
	lists(t, m, "a-b-c")
	ensure(t, m, Pod("a-b-c", "100m", ""))
	if err := open().Remove(t.Context(), "a-b-c"); err != nil {
		t.Fatal(err)
	}
	lists(t, m)
}

func badUID(t *testing.T, open func() cgroups.Manager) {
	m := open()
	for _, uid := range []types.UID{"a_b", "a/b", "", "x/../../y", "a\x00"} {
		_, err := m.Ensure(t.Context(), Pod(uid, "100m", ""))
		var ne *cgroups.NameError
		if !errors.As(err, &ne) {
			t.Errorf("Ensure(%q): %v, want a *NameError", uid, err)
		}
		if err := m.Remove(t.Context(), uid); err == nil {
			t.Errorf("Remove(%q) gave no error", uid)
		}
	}
	ensure(t, m, Pod("good", "100m", ""))
	lists(t, m, "good")
}

func reduceCPUKeeps(t *testing.T, open func() cgroups.Manager) {
	m := open()
	p := Pod("a", "500m", "500m")
	ensure(t, m, p)
	for _, uid := range []types.UID{"a", "a", "never-seen"} {
		if err := m.ReduceCPU(t.Context(), uid); err != nil {
			t.Errorf("ReduceCPU(%s): %v", uid, err)
		}
	}
	lists(t, m, "a")
	ensure(t, m, p)
}

func refreshTiers(t *testing.T, open func() cgroups.Manager) {
	m := open()
	p := Pod("a", "100m", "")
	for range 2 {
		if err := m.RefreshTiers(t.Context(), []*corev1.Pod{p}); err != nil {
			t.Fatalf("RefreshTiers: %v", err)
		}
	}
	lists(t, m)
	ensure(t, m, p)
	if err := m.RefreshTiers(t.Context(), nil); err != nil {
		t.Fatalf("RefreshTiers: %v", err)
	}
	lists(t, m, "a")
}

func canceledContext(t *testing.T, open func() cgroups.Manager) {
	m := open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Ensure(ctx, Pod("a", "", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("Ensure: %v, want context.Canceled", err)
	}
	lists(t, m)
}

func manyPods(t *testing.T, open func() cgroups.Manager) {
	m := open()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			uid := types.UID("p" + strconv.Itoa(i))
			p := Pod(uid, "100m", "")
			for range 3 {
				if _, err := m.Ensure(t.Context(), p); err != nil {
					t.Errorf("Ensure: %v", err)
				}
			}
			if i%2 == 0 {
				if err := m.Remove(t.Context(), uid); err != nil {
					t.Errorf("Remove: %v", err)
				}
			}
		})
	}
	wg.Wait()
	lists(t, m, "p1", "p11", "p13", "p15", "p3", "p5", "p7", "p9")
}
