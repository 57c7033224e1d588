package cri

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Backoff is the crash-loop backoff of one container of one pod, for a store.
type Backoff struct {
	// UID is the pod's.
	UID types.UID `json:"uid"`
	// Key identifies the container, its image and its resources.
	Key string `json:"key"`
	// Delay is the wait after the last exit before the next start.
	Delay time.Duration `json:"delay"`
	// Updated is when Delay was set.
	Updated time.Time `json:"updated"`
}

// crashLoop keeps how long containers that keep exiting have to wait. The first
// restart is immediate; then the wait is initial, doubled up to max with each
// restart and measured from the exit. A run longer than twice max starts over.
type crashLoop struct {
	initial, max time.Duration
	clock        clock.PassiveClock

	mu   sync.Mutex
	pods map[types.UID]map[string]loopState
}

type loopState struct {
	delay   time.Duration
	updated time.Time
}

func newCrashLoop(initial, max time.Duration, c clock.PassiveClock) *crashLoop {
	return &crashLoop{initial: initial, max: max, clock: c, pods: map[types.UID]map[string]loopState{}}
}

// loopKey identifies what the backoff is of: a new image or new resources begin
// anew. It is the kubelet's.
func loopKey(pod *corev1.Pod, c *corev1.Container) string {
	h := fnv.New64a()
	for i, part := range []string{pod.Name, pod.Namespace, string(pod.UID), c.Name, c.Image, c.Resources.String()} {
		if i > 0 {
			io.WriteString(h, "/")
		}
		io.WriteString(h, part)
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// wait returns how long the container that exited at that time has to wait yet
// and of which delay that is the rest; zero when it may start.
func (l *crashLoop) wait(pod *corev1.Pod, c *corev1.Container, exited time.Time) (left, delay time.Duration) {
	key := loopKey(pod, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.pods[pod.UID][key]
	if !ok || l.expired(s, exited) {
		return 0, 0
	}
	return max(0, s.delay-l.clock.Since(exited)), s.delay
}

// next lengthens the wait, because the container is started again now.
func (l *crashLoop) next(pod *corev1.Pod, c *corev1.Container, exited time.Time) {
	key := loopKey(pod, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.pods[pod.UID]
	if m == nil {
		m = map[string]loopState{}
		l.pods[pod.UID] = m
	}
	s, ok := m[key]
	if !ok || l.expired(s, exited) {
		s.delay = l.initial
	} else {
		s.delay = min(2*s.delay, l.max)
	}
	s.updated = l.clock.Now()
	m[key] = s
}

// expired tells whether the container had run for long when it exited.
func (l *crashLoop) expired(s loopState, exited time.Time) bool {
	return exited.Sub(s.updated) > 2*l.max
}

func (l *crashLoop) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pods, uid)
}

func (l *crashLoop) list() []Backoff {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Backoff
	for uid, m := range l.pods {
		for k, s := range m {
			if l.clock.Since(s.updated) <= 2*l.max+s.delay {
				out = append(out, Backoff{UID: uid, Key: k, Delay: s.delay, Updated: s.updated})
			}
		}
	}
	slices.SortFunc(out, func(a, b Backoff) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Key, b.Key))
	})
	return out
}

func (l *crashLoop) restore(bs []Backoff) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for _, b := range bs {
		if b.UID == "" || b.Key == "" || b.Delay <= 0 || now.Sub(b.Updated) > 2*l.max+l.max {
			continue
		}
		if b.Updated.After(now) { // the clock was set back, or the store lies
			b.Updated = now
		}
		m := l.pods[b.UID]
		if m == nil {
			m = map[string]loopState{}
			l.pods[b.UID] = m
		}
		m[b.Key] = loopState{delay: min(max(b.Delay, l.initial), l.max), updated: b.Updated}
	}
}
