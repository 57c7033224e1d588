package source_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync/source"
)

func memoryPod(name, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &source.Memory{}
		s := start(t, m)
		step := func(fn func()) { synctest.Wait(); fn(); synctest.Wait() }
		mine := memoryPod("a", "1")
		step(func() { m.Set(mine, memoryPod("b", "1")) })
		step(func() { mine.Spec.Containers[0].Image = "changed later" })
		step(func() { m.Update(memoryPod("b", "2")) })
		step(func() { m.Update(memoryPod("c", "1")) })
		step(func() { m.Delete("uid-a") })
		step(func() { m.Delete("uid-nobody") })
		step(func() { m.Set() })
		want := []string{"", "a=1 b=1", "a=1 b=2", "a=1 b=2 c=1", "b=2 c=1", "b=2 c=1", ""}
		if got := s.history(); !slices.Equal(got, want) {
			t.Errorf("sets: want %q, got %q", want, got)
		}
	})
}

func TestMemory_servesSeveralAgents(t *testing.T) {
	m := &source.Memory{SourceName: "mine"}
	if m.Name() != "mine" || (&source.Memory{}).Name() != "memory" {
		t.Errorf("want names mine and memory, got %s", m.Name())
	}
	m.Set(memoryPod("a", "1"))
	one, two := start(t, m), start(t, m)
	one.becomes(t, "a=1")
	two.becomes(t, "a=1")
	var wg sync.WaitGroup
	for _, n := range []string{"b", "c", "d", "e"} {
		wg.Go(func() { m.Update(memoryPod(n, "1")) })
	}
	wg.Wait()
	one.becomes(t, "a=1 b=1 c=1 d=1 e=1")
	two.becomes(t, "a=1 b=1 c=1 d=1 e=1")
}
