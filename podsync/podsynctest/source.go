package podsynctest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// SourceBackend is a podsync.Source and what stands behind it.
type SourceBackend struct {
	// Source is what is tested.
	Source podsync.Source
	// Set makes the pods the whole set of the source. The suite knows pods by the
	// image of their first container; names and UIDs may be the source's own.
	Set func(t *testing.T, pods ...*corev1.Pod)
	// Break, if set, makes what the source reads unusable until the next Set.
	Break func(t *testing.T)
}

// Source tests an implementation of podsync.Source. create makes one whose set is
// empty; it is called once for each part.
func Source(t *testing.T, create func(t *testing.T) SourceBackend) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, b SourceBackend)
	}{
		{"name is constant", sourceName},
		{"an empty set is handed over", sourceEmpty},
		{"the set follows", sourceFollows},
		{"pods that were there before it ran", sourceBefore},
		{"a fault is no empty set", sourceFault},
		{"what was handed over stays", sourceStays},
		{"nothing after its end, all of it when run again", sourceAgain},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, create(t)) })
	}
}

// sourceSets are the sets that a source handed over.
type sourceSets struct {
	mu   sync.Mutex
	all  [][]*corev1.Pod
	copy [][]*corev1.Pod
	over bool
	late int
}

func (s *sourceSets) set(pods []*corev1.Pod) {
	c := slices.Clone(pods)
	for i, p := range pods {
		c[i] = p.DeepCopy()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.copy = append(s.all, pods), append(s.copy, c)
	if s.over {
		s.late++
	}
}

// images are those of a set, sorted: how the suite knows pods.
func images(pods []*corev1.Pod) string {
	var l []string
	for _, p := range pods {
		image := ""
		if len(p.Spec.Containers) > 0 {
			image = p.Spec.Containers[0].Image
		}
		l = append(l, image)
	}
	slices.Sort(l)
	return strings.Join(l, " ")
}

func (s *sourceSets) history() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []string
	for _, pods := range s.all {
		l = append(l, images(pods))
	}
	return l
}

// becomes waits for the set and returns it.
func (s *sourceSets) becomes(t *testing.T, want string) []*corev1.Pod {
	t.Helper()
	eventually(t, func() error {
		h := s.history()
		if len(h) == 0 || h[len(h)-1] != want {
			return fmt.Errorf("sets so far %q, want %q", h, want)
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.all[len(s.all)-1]
	uids := map[types.UID]bool{}
	for _, p := range last {
		if p.UID == "" || uids[p.UID] {
			t.Errorf("pod %s/%s has UID %q: it is empty or another pod's of the set", p.Namespace, p.Name, p.UID)
		}
		uids[p.UID] = true
	}
	return last
}

func runSource(t *testing.T, src podsync.Source) (s *sourceSets, stop func()) {
	t.Helper()
	s = &sourceSets{}
	stop = inBackground(t, "Run", func(ctx context.Context) error { return src.Run(ctx, s.set) })
	return s, stop
}

// sourcePod is pod name with an image.
func sourcePod(name, image string) *corev1.Pod {
	p := Pod(Named(name), Container(corev1.Container{Name: "app", Image: image}))
	p.APIVersion, p.Kind = "v1", "Pod"
	return p
}

func sourceName(t *testing.T, b SourceBackend) {
	before := b.Source.Name()
	runSource(t, b.Source)
	if before == "" || b.Source.Name() != before {
		t.Errorf("Name() = %q, then %q; it must be constant and not empty", before, b.Source.Name())
	}
}

// The agent removes nothing before every source was seen: an empty one must say so.
func sourceEmpty(t *testing.T, b SourceBackend) {
	s, _ := runSource(t, b.Source)
	s.becomes(t, "")
}

func sourceFollows(t *testing.T, b SourceBackend) {
	s, _ := runSource(t, b.Source)
	s.becomes(t, "")
	b.Set(t, sourcePod("a", "i:1"))
	first := s.becomes(t, "i:1")
	b.Set(t, sourcePod("a", "i:1"), sourcePod("b", "i:2"))
	second := s.becomes(t, "i:1 i:2")
	if !slices.ContainsFunc(second, func(p *corev1.Pod) bool { return p.UID == first[0].UID }) {
		t.Errorf("pod a has another UID although only b came: %q, then %q and %q", first[0].UID, second[0].UID, second[1].UID)
	}
	b.Set(t, sourcePod("a", "i:3"), sourcePod("b", "i:2"))
	s.becomes(t, "i:2 i:3")
	b.Set(t, sourcePod("b", "i:2"))
	s.becomes(t, "i:2")
	b.Set(t)
	s.becomes(t, "")
}

func sourceBefore(t *testing.T, b SourceBackend) {
	b.Set(t, sourcePod("a", "i:1"), sourcePod("b", "i:2"))
	s, _ := runSource(t, b.Source)
	s.becomes(t, "i:1 i:2")
	if h := s.history(); h[0] != "i:1 i:2" {
		t.Errorf("the first set is %q; it must be the whole one, for pods that are not in it are stopped", h[0])
	}
}

func sourceFault(t *testing.T, b SourceBackend) {
	if b.Break == nil {
		t.Log("left out: nothing can go wrong with the source")
		return
	}
	b.Set(t, sourcePod("a", "i:1"))
	s, _ := runSource(t, b.Source)
	s.becomes(t, "i:1")
	b.Break(t)
	b.Set(t, sourcePod("a", "i:1"), sourcePod("b", "i:2"))
	s.becomes(t, "i:1 i:2")
	for _, h := range s.history() {
		if !strings.Contains(h, "i:1") {
			t.Errorf("sets %q: the fault took a pod away", s.history())
			break
		}
	}
}

func sourceStays(t *testing.T, b SourceBackend) {
	s, stop := runSource(t, b.Source)
	for i := range 4 {
		b.Set(t, sourcePod("a", fmt.Sprintf("i:%d", i)), sourcePod("b", "j:1"))
		s.becomes(t, fmt.Sprintf("i:%d j:1", i))
	}
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := cmp.Diff(s.copy, s.all); d != "" {
		t.Errorf("pods changed after they were handed over (-then +now):\n%s", d)
	}
}

func sourceAgain(t *testing.T, b SourceBackend) {
	b.Set(t, sourcePod("a", "i:1"))
	s, stop := runSource(t, b.Source)
	before := s.becomes(t, "i:1")
	stop()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	b.Set(t, sourcePod("a", "i:1"), sourcePod("b", "i:2"))
	again, _ := runSource(t, b.Source)
	after := again.becomes(t, "i:1 i:2")
	if !slices.ContainsFunc(after, func(p *corev1.Pod) bool { return p.UID == before[0].UID }) {
		t.Errorf("after a restart no pod has UID %q: the pod would be stopped and another started", before[0].UID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late > 0 {
		t.Errorf("%d sets were handed over after Run had returned", s.late)
	}
}
