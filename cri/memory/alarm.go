package memory

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// alarm is one thing that happens later. Fire runs with the lock of the Runtime held and is told the time the
// alarm was due, which is not later than now.
type alarm struct {
	at    time.Time
	seq   uint64
	index int // place in the heap; -1 when fired or cancelled
	fire  func(at time.Time)
}

type alarmHeap []*alarm

func (h alarmHeap) Len() int { return len(h) }
func (h alarmHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	a.index = len(*h)
	*h = append(*h, a)
}
func (h *alarmHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.index = -1
	return a
}

// alarms is the schedule of a Runtime: one timer for the earliest alarm. Its methods are called with the lock
// of the Runtime held, except tick.
//
// The fake clock calls back with its own lock held, so tick must not take the Runtime's lock (its holders
// call the clock): it hands over to a goroutine of its own, which stop waits for.
type alarms struct {
	clock   Clock
	settle  func(gen uint64) // takes the lock and calls fired
	heap    alarmHeap
	frozen  bool
	seq     uint64
	timer   clock.Timer
	timerAt time.Time
	gen     uint64 // number of the timer, so that one that fired is known from its successor

	mu      sync.Mutex // guards stopped; held across no other lock
	stopped bool
	wg      sync.WaitGroup
}

// after schedules fire in d.
func (s *alarms) after(d time.Duration, fire func(at time.Time)) *alarm {
	s.seq++
	a := &alarm{at: s.clock.Now().Add(d), seq: s.seq, fire: fire, index: -1}
	if s.frozen {
		return a
	}
	heap.Push(&s.heap, a)
	s.rearm()
	return a
}

// cancel takes a back; nil and fired alarms are fine.
func (s *alarms) cancel(a *alarm) {
	if a == nil || a.index < 0 {
		return
	}
	heap.Remove(&s.heap, a.index)
	s.rearm()
}

// due fires what is due at now, in order.
func (s *alarms) due(now time.Time) {
	if len(s.heap) == 0 || s.heap[0].at.After(now) {
		return
	}
	for len(s.heap) > 0 && !s.heap[0].at.After(now) {
		a := heap.Pop(&s.heap).(*alarm)
		a.fire(a.at)
	}
	s.rearm()
}

// freeze drops all alarms, and those that come later.
func (s *alarms) freeze() {
	s.frozen = true
	for _, a := range s.heap {
		a.index = -1
	}
	s.heap = nil
	s.disarm()
}

// fired is called, by settle, when timer gen has fired.
func (s *alarms) fired(gen uint64) {
	if gen == s.gen {
		s.timer = nil
	}
	s.due(s.clock.Now())
	s.rearm()
}

// rearm sets the timer to the earliest alarm.
func (s *alarms) rearm() {
	if len(s.heap) == 0 {
		s.disarm()
		return
	}
	head := s.heap[0].at
	if s.timer != nil && s.timerAt.Equal(head) {
		return
	}
	s.disarm()
	s.gen++
	gen := s.gen
	d := head.Sub(s.clock.Now())
	if d <= 0 { // a fake clock would not call back before its next step
		s.tick(gen)
		return
	}
	s.timerAt = head
	s.timer = s.clock.AfterFunc(d, func() { s.tick(gen) })
}

func (s *alarms) disarm() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// tick is the callback of timer gen.
func (s *alarms) tick(gen uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.wg.Go(func() { s.settle(gen) })
	}
}

// stop lets no callback start any more, and waits for those that run. It comes after freeze, and without the
// lock of the Runtime.
func (s *alarms) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.wg.Wait()
}
