package status

import (
	"context"
	"fmt"

	"github.com/podsync/sdk/podsync"
)

// Publish is the status stage of the sync phase, and of that phase only: it may
// end it. It computes the pod's status
// from what the runtime holds of it and hands it to the manager, which writes it
// in its own time. It is nearly free when nothing changed.
//
//   - Done("PodCompleted") when the pod has ended by itself. The terminal phase
//     itself is said when all is stopped.
//   - Fail("DeadlineExceeded") when its activeDeadlineSeconds are over.
//   - Continue otherwise, Again at the deadline if there is one.
func Publish(m *Manager) podsync.Stage { return publish{m} }

// Stopping is the status stage of the terminating phase. It shows what has
// stopped and what has not; a terminal phase is held back. It always continues.
func Stopping(m *Manager) podsync.Stage { return stopping{m} }

// Final is the final-status stage: of the terminating phase, after it was made
// sure that nothing runs, and of the terminated phase. It says how the pod ended.
//
// The phase becomes terminal: that of the Termination if it has one, else by how
// the containers ended, and Failed for a pod that was stopped before they did.
// Containers whose end nobody saw get ContainerStatusUnknown and exit code 137. A
// static pod without a phase in its Termination keeps one that is not terminal
// where its containers could have been restarted, as with the kubelet.
//
// It asks for a retry when the runtime shows a running container: the terminal
// phase is not said as long as that is so.
func Final(m *Manager) podsync.Stage { return final{m} }

type publish struct{ m *Manager }

func (publish) Name() string { return podsync.StageStatus }

func (p publish) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if s.Termination().Orphan {
		return podsync.Skip(skipOrphan)
	}
	v := p.m.update(s, false, false)
	switch {
	case v.stopping:
		return podsync.Continue()
	case Terminal(v.wanted):
		return podsync.Done(ReasonPodCompleted)
	case s.Pod().Spec.ActiveDeadlineSeconds == nil:
		return podsync.Continue()
	}
	left, ok := Deadline(s.Pod(), v.start, s.Now())
	switch {
	case !ok:
		return podsync.Continue()
	case left <= 0:
		return podsync.Fail(ReasonDeadlineExceeded, &DeadlineError{Seconds: *s.Pod().Spec.ActiveDeadlineSeconds})
	default:
		return podsync.Continue().Again(left)
	}
}

type stopping struct{ m *Manager }

func (stopping) Name() string { return podsync.StageStatus }

func (p stopping) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if s.Termination().Orphan {
		return podsync.Skip(skipOrphan)
	}
	p.m.update(s, true, false)
	return podsync.Continue()
}

type final struct{ m *Manager }

func (final) Name() string { return podsync.StageFinalStatus }

func (p final) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if s.Termination().Orphan {
		return podsync.Skip(skipOrphan)
	}
	p.m.update(s, true, true)
	if runs(s.Runtime()) {
		return podsync.Retry(&StillRunningError{Pod: s.Ref()})
	}
	return podsync.Continue()
}

const skipOrphan = "Orphan"

// DeadlineError says that a pod was active for longer than it may be.
type DeadlineError struct {
	// Seconds is the pod's activeDeadlineSeconds.
	Seconds int64
}

// Error is the message of the pod's status.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("the pod was active on the node for longer than its activeDeadlineSeconds of %d", e.Seconds)
}

// StillRunningError says that a pod cannot be called ended.
type StillRunningError struct {
	// Pod is the pod, as podsync.Ref writes it.
	Pod string
}

// Error names the pod.
func (e *StillRunningError) Error() string {
	return fmt.Sprintf("pod %s is to be called ended, but the runtime shows a running container of it", e.Pod)
}
