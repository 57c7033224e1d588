package cri

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// Bounds of the pause before the event stream is opened again, and how long a
// runtime that does not stream is left alone.
const (
	streamBackoffMin  = time.Second
	streamBackoffMax  = 30 * time.Second
	streamUnsupported = 10 * time.Minute
	// busyFor is how long after a change lists stay frequent.
	busyFor = 10 * time.Second
	// eventBuffer is the number of events that may wait to be looked at.
	eventBuffer = 256
)

// Watch implements podsync.RuntimeView. It can be called by several at once,
// but each call asks the runtime by itself.
func (m *Monitor) Watch(ctx context.Context, changed func(types.UID)) error {
	m.mu.Lock()
	id := m.next
	m.next++
	m.watchers[id] = changed
	m.started = m.r.o.Clock.Now()
	m.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { m.stream(ctx) })
	wg.Go(func() { m.relistLoop(ctx) })
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watchers, id)
	return nil
}

// stream keeps the event stream of the runtime open.
func (m *Monitor) stream(ctx context.Context) {
	pause := streamBackoffMin
	for ctx.Err() == nil {
		opened := m.r.o.Clock.Now()
		err := m.readEvents(ctx)
		m.setStreaming(false)
		if ctx.Err() != nil {
			return
		}
		if m.r.o.Clock.Since(opened) > streamBackoffMax {
			pause = streamBackoffMin
		}
		d := pause
		if unimplemented(err) {
			d = streamUnsupported
			m.r.log.InfoContext(ctx, "the runtime streams no events; it is looked at more often instead")
		} else {
			m.r.log.DebugContext(ctx, "event stream of the runtime ended", "err", err, "again", d)
		}
		if !m.pause(ctx, d, nil) {
			return
		}
		pause = min(2*pause, streamBackoffMax)
	}
}

// readEvents handles the events of one stream until it ends.
func (m *Monitor) readEvents(ctx context.Context) error {
	events := make(chan *runtimeapi.ContainerEventResponse, eventBuffer)
	var err error
	go func() {
		defer close(events)
		err = m.r.o.Runtime.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) {
			m.setStreaming(true)
			m.hurry() // for what happened before
		})
	}()
	// The sender does not give up on a full channel, so it is read to its end.
	for ev := range events {
		if ev != nil && ctx.Err() == nil {
			m.event(ev)
		}
	}
	return err
}

func (m *Monitor) setStreaming(on bool) {
	m.mu.Lock()
	m.streams = on
	m.mu.Unlock()
	if !on {
		m.hurry()
	}
}

// event looks at one event and wakes the pod if it says anything new.
func (m *Monitor) event(ev *runtimeapi.ContainerEventResponse) {
	box := ev.GetPodSandboxStatus()
	uid := types.UID(box.GetMetadata().GetUid())
	m.mu.Lock()
	if uid == "" {
		uid = m.uidOfLocked(ev.ContainerId)
	}
	if uid == "" {
		m.mu.Unlock()
		m.hurry() // the list knows whose it is
		return
	}
	e := m.pods[uid]
	if e == nil {
		tell := box != nil && m.r.owns(box.GetLabels()) && ev.ContainerEventType != runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
		m.mu.Unlock()
		if tell {
			m.tell(uid)
		}
		return
	}
	tell := e.event(ev.ContainerId, ev.ContainerEventType)
	if tell {
		m.changed = m.r.o.Clock.Now()
	}
	m.mu.Unlock()
	if tell {
		m.tell(uid)
	}
}

// event takes note of an event and tells whether the pod is to be woken.
func (e *entry) event(id string, t runtimeapi.ContainerEventType) bool {
	// Events are numbered in the order of a life. What came before this process's
	// own doing is no news either: it may be told when the stage has ended already.
	if own, ok := e.own[id]; ok && t <= own {
		return false
	}
	if e.clean() && !tellsNew(e.pod, id, t) {
		return false
	}
	e.touch()
	switch t {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		return false // nothing runs yet
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		return e.acting == 0 // only this process starts containers
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		return e.acting == 0
	default:
		if e.acting > 0 {
			e.missed = true
			return false
		}
		return true
	}
}

// tellsNew tells whether an event says what the state does not show.
func tellsNew(p *podsync.RuntimePod, id string, t runtimeapi.ContainerEventType) bool {
	for _, c := range p.Containers {
		if c.ID != id {
			continue
		}
		switch t {
		case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
			return false
		case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
			return c.State == podsync.ContainerCreated || c.State == podsync.ContainerUnknown
		case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
			return c.State != podsync.ContainerExited
		default:
			return true
		}
	}
	for _, s := range p.Sandboxes {
		if s.ID != id {
			continue
		}
		ready := s.Ready
		switch t {
		case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
			return false
		case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
			return !ready
		case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
			return ready
		default:
			return true
		}
	}
	return t != runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
}

// uidOfLocked finds the pod of a container or sandbox among those observed.
func (m *Monitor) uidOfLocked(id string) types.UID {
	for uid, e := range m.pods {
		if e.pod != nil && holds(e.pod, id) {
			return uid
		}
	}
	return ""
}

// relistLoop looks at everything the runtime holds, now and again.
func (m *Monitor) relistLoop(ctx context.Context) {
	d := m.r.o.RelistMin
	for ctx.Err() == nil {
		if err := m.relist(ctx); err != nil && ctx.Err() == nil {
			m.r.log.WarnContext(ctx, "looking at the runtime failed; what is known stays as it is", "err", err)
		}
		d = m.interval(d)
		if !m.waitToList(ctx, d) {
			return
		}
	}
}

// interval returns the pause before the next list: short while something
// changes or nothing else would say so, else ever longer.
func (m *Monitor) interval(last time.Duration) time.Duration {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.streams || m.r.o.Clock.Since(m.changed) < busyFor {
		return m.r.o.RelistMin
	}
	return min(2*last, m.r.o.RelistMax)
}

// waitToList pauses for d, or for RelistMin from when hurry is called.
func (m *Monitor) waitToList(ctx context.Context, d time.Duration) bool {
	began := m.r.o.Clock.Now()
	if !m.pause(ctx, d, m.kick) {
		return false
	}
	if left := m.r.o.RelistMin - m.r.o.Clock.Since(began); left > 0 {
		return m.pause(ctx, left, nil)
	}
	return true
}

// pause waits for d or until early; false when ctx ended.
func (m *Monitor) pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := m.r.o.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-t.C():
	}
	return true
}

// relist compares what the runtime lists with what is known and wakes the pods
// that differ. A list that fails changes nothing.
func (m *Monitor) relist(ctx context.Context) error {
	began := m.r.o.Clock.Now()
	lctx, cancel := m.r.quick(ctx)
	defer cancel()
	l, err := m.list(lctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	now := make(map[types.UID]uint64, len(l.ids))
	for uid := range l.ids {
		// A pod that the agent asked for is its concern, whoever made it.
		if l.owned[uid] || m.pods[uid] != nil {
			now[uid] = fingerprint(l.pod(uid, began))
		}
	}
	wake := m.diffLocked(now, began)
	m.listed, m.lastList = now, m.r.o.Clock.Now()
	if len(wake) > 0 {
		m.changed = m.lastList
	}
	first := m.strange == 0
	m.strange = l.strange
	m.mu.Unlock()
	if first && l.strange > 0 {
		m.r.log.InfoContext(ctx, "sandboxes of others are left alone", "count", l.strange, "owner", m.r.o.Owner)
	}
	for _, uid := range wake {
		m.tell(uid)
	}
	return nil
}

// diffLocked returns the pods to wake after a list that began at that time.
func (m *Monitor) diffLocked(now map[types.UID]uint64, began time.Time) []types.UID {
	var wake []types.UID
	for uid, e := range m.pods {
		fp := now[uid]
		switch {
		case e.acting > 0 || e.pod == nil:
		case e.clean() && (!e.observed.Before(began) || fp == e.print):
			// Observed after the list, or equal to it.
		case e.clean() || fp != m.listed[uid]:
			e.touch()
			wake = append(wake, uid)
		}
	}
	if m.listed == nil {
		return wake // the first list: what is there is found by Pods
	}
	for uid, fp := range now {
		if m.pods[uid] == nil && m.listed[uid] != fp {
			wake = append(wake, uid)
		}
	}
	for uid := range m.listed {
		if _, ok := now[uid]; !ok && m.pods[uid] == nil {
			wake = append(wake, uid)
		}
	}
	return wake
}
