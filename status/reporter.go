package status

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

var _ podsync.Reporter = (*Manager)(nil)

// rejectedPrefix begins the message of a pod that the node refused.
const rejectedPrefix = "Pod was rejected: "

// Ended takes in how a run of a phase ended. A pod refused by the admit phase
// becomes Failed at once, unless containers of it run from before: then it does
// when the terminating phase has stopped them. What a Wait or a Retry of the
// admit or sync phase says is shown as what the pod's containers wait for, until
// a run ends well. The status follows what the run learned of the runtime.
func (m *Manager) Ended(_ context.Context, s *podsync.Sync, p podsync.Phase, o podsync.Outcome) {
	if s.Termination().Orphan || o.Kind() == podsync.KindCanceled {
		return
	}
	switch p {
	case podsync.PhaseAdmit:
		m.admitEnded(s, o)
	case podsync.PhaseSync:
		m.syncEnded(s, o)
	case podsync.PhaseTerminated:
		if !o.Stops() || o.Kind() == podsync.KindDone {
			m.finish(s)
		}
	default:
	}
}

func (m *Manager) admitEnded(s *podsync.Sync, o podsync.Outcome) {
	switch o.Kind() {
	case podsync.KindReject, podsync.KindFail:
		m.reject(s, o)
	case podsync.KindWait, podsync.KindRetry:
		m.setWaiting(s, o)
		m.update(s, false, false)
	default:
		m.setWaiting(s, o)
	}
}

func (m *Manager) syncEnded(s *podsync.Sync, o podsync.Outcome) {
	m.setWaiting(s, o)
	switch o.Kind() {
	case podsync.KindDone, podsync.KindReject, podsync.KindFail:
		// The terminating phase begins, and its first stage says the rest.
	default:
		m.update(s, false, false)
	}
}

// setWaiting notes what the pod waits for, or that it waits for nothing.
func (m *Manager) setWaiting(s *podsync.Sync, o podsync.Outcome) {
	var w Waiting
	switch o.Kind() {
	case podsync.KindWait, podsync.KindRetry:
		w = Waiting{Reason: o.Reason(), Message: o.Message(), Stage: o.Stage()}
	default:
	}
	e := m.lock(s.Pod())
	e.waiting = w
	e.mu.Unlock()
}

func (m *Manager) reject(s *podsync.Sync, o podsync.Outcome) {
	pod := s.Pod()
	e := m.lock(pod)
	e.waiting = Waiting{}
	if s.Runtime().ContainersCouldRun() {
		e.mu.Unlock()
		m.update(s, true, false)
		return
	}
	next := Rejected(pod, e.status, o.Reason(), rejectedPrefix+o.Message(), metav1.NewTime(s.Now()))
	e.memo, e.wanted = memo{}, next.Phase
	e.finished = true // it had nothing to give back
	changed := m.set(e, &next, pod.DeletionTimestamp != nil)
	e.mu.Unlock()
	if changed {
		m.announce(pod.UID)
	}
}

// finish notes that the pod has given everything back.
func (m *Manager) finish(s *podsync.Sync) {
	e := m.lock(s.Pod())
	changed := !e.finished && e.status != nil
	e.finished = true
	if changed {
		e.version = m.version.Add(1)
	}
	e.mu.Unlock()
	if changed {
		m.announce(s.UID())
	}
}

// Forget drops the pod, here and in the sinks. A last status that a sink has not
// got yet is written to it first.
func (m *Manager) Forget(_ context.Context, uid types.UID) {
	m.mu.Lock()
	e := m.entries[uid]
	delete(m.entries, uid)
	m.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	e.gone, e.finished = true, true
	if e.status != nil {
		last := e.record()
		for _, w := range m.writers {
			w.forget(last)
		}
	}
	e.mu.Unlock()
	m.announce(uid)
}

// Refresh makes the status follow what s now holds of the runtime, in the middle
// of a run: after the sandbox was made, say, while images are still being pulled.
// It writes nothing itself and returns at once.
func (m *Manager) Refresh(s *podsync.Sync) {
	if !s.Termination().Orphan {
		m.update(s, false, false)
	}
}

// Cleaner returns what finds the statuses of pods that nobody knows any more:
// those restored from a sink whose pods are gone. It is for an agent whose
// Reporter is m, which forgets a pod when everything else of it is removed.
func (m *Manager) Cleaner() podsync.Cleaner { return cleaner{m} }

type cleaner struct{ m *Manager }

func (cleaner) Name() string { return "statuses" }

func (c cleaner) Pods(context.Context) ([]types.UID, error) {
	c.m.mu.RLock()
	defer c.m.mu.RUnlock()
	uids := make([]types.UID, 0, len(c.m.entries))
	for uid := range c.m.entries {
		uids = append(uids, uid)
	}
	return uids, nil
}

// Remove leaves the removal to Forget: an API object must not go before what its
// pod left on the node.
func (cleaner) Remove(context.Context, types.UID) error { return nil }

// Phase returns the pod's last phase, "" when there is none. It is cheaper than Get.
func (m *Manager) Phase(uid types.UID) corev1.PodPhase {
	r, _ := m.record(uid)
	return r.Status.Phase
}
