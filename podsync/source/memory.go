package source

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// Memory is a source that the program fills itself: for tests, and for embedders
// that get their pods in a way of their own. The zero value is an empty set,
// ready to use. Pods are copied on their way in; they are neither defaulted nor
// given UIDs, that is left to the agent and to the caller. Safe for concurrent use.
type Memory struct {
	// SourceName is what Name returns. Default "memory". Set it before Run.
	SourceName string

	mu   sync.Mutex
	pods []*corev1.Pod
	runs map[int]chan struct{}
	next int
}

var _ podsync.Source = (*Memory)(nil)

// Name returns SourceName, "memory" by default.
func (m *Memory) Name() string { return sourceName(m.SourceName, "memory") }

// Set makes pods the whole set.
func (m *Memory) Set(pods ...*corev1.Pod) {
	copies := make([]*corev1.Pod, 0, len(pods))
	for _, p := range pods {
		copies = append(copies, p.DeepCopy())
	}
	m.change(func([]*corev1.Pod) []*corev1.Pod { return copies })
}

// Update adds the pod, or replaces the one of the same UID.
func (m *Memory) Update(pod *corev1.Pod) {
	p := pod.DeepCopy()
	m.change(func(pods []*corev1.Pod) []*corev1.Pod {
		if i := index(pods, p.UID); i >= 0 {
			pods[i] = p
			return pods
		}
		return append(pods, p)
	})
}

// Delete takes the pod of the UID out of the set; it need not be there.
func (m *Memory) Delete(uid types.UID) {
	m.change(func(pods []*corev1.Pod) []*corev1.Pod {
		if i := index(pods, uid); i >= 0 {
			return slices.Delete(pods, i, i+1)
		}
		return pods
	})
}

func index(pods []*corev1.Pod, uid types.UID) int {
	return slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid })
}

// change replaces the set; the old slice may be in a receiver's hands.
func (m *Memory) change(fn func([]*corev1.Pod) []*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = fn(slices.Clone(m.pods))
	for _, changed := range m.runs {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func (m *Memory) snapshot() []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.pods)
}

// Run hands over the set, at once and after changes, until ctx ends; then it
// returns nil. Changes that follow one another quickly may be seen as one.
// Several agents may run one Memory.
func (m *Memory) Run(ctx context.Context, set func(pods []*corev1.Pod)) error {
	changed := make(chan struct{}, 1)
	m.mu.Lock()
	if m.runs == nil {
		m.runs = map[int]chan struct{}{}
	}
	id := m.next
	m.next++
	m.runs[id] = changed
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.runs, id)
	}()
	for {
		set(m.snapshot())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
