package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation answers why a pod is where it is.
type Explanation struct {
	// UID, Namespace and Name are the pod's; Source is where it comes from.
	UID             types.UID
	Namespace, Name string
	Source          string
	// State is "waiting for its turn", "admit", "sync", "terminating",
	// "terminated", "finished" or "cleanup".
	State string
	// Running tells whether a run is under way at this moment.
	Running bool
	// Stage, Kind, Reason and Message are those of the last outcome; Since is
	// when it became that.
	Stage           string
	Kind            Kind
	Reason, Message string
	Since           time.Time
	// WakeOn are the topics that would end the wait; NextRun is when it ends at
	// the latest, zero when a run is under way or nothing is planned.
	WakeOn  []Topic
	NextRun time.Time
	// Attempt is how many runs failed in a row. Grace is what the pod has to
	// stop in, zero before it is to.
	Attempt int
	Grace   time.Duration
	// Trace is the last run, stage by stage; nil before the first.
	Trace *Trace
}

// String says it in one line.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s(%s): %s", e.Namespace, e.Name, e.UID, e.State)
	if e.Running {
		b.WriteString(", running now")
	}
	if e.Stage != "" {
		fmt.Fprintf(&b, ", stage %s: %s", e.Stage, e.Kind)
		if e.Reason != "" {
			fmt.Fprintf(&b, "(%s)", e.Reason)
		}
		if e.Message != "" {
			b.WriteString(": " + e.Message)
		}
		fmt.Fprintf(&b, ", since %s", e.Since.Format(time.RFC3339))
	}
	if len(e.WakeOn) > 0 {
		fmt.Fprintf(&b, ", wakes on %v", e.WakeOn)
	}
	if !e.NextRun.IsZero() {
		fmt.Fprintf(&b, ", next run %s", e.NextRun.Format(time.RFC3339))
	}
	return b.String()
}

// Explain says where the pod is, what it waits for, since when, and when it
// runs next. ok is false when the agent does not know the UID.
func (a *Agent) Explain(uid types.UID) (e Explanation, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[uid]
	if w == nil {
		return e, false
	}
	return w.explain(), true
}

func (w *worker) explain() Explanation {
	e := Explanation{
		UID: w.uid, Source: w.source, State: w.state.String(), Running: w.busy,
		Stage: w.last.stage, Kind: w.last.kind, Reason: w.last.Reason(), Message: w.last.Message(), Since: w.since,
		WakeOn: w.last.wake, NextRun: w.nextRun, Attempt: w.attempt, Grace: w.grace, Trace: w.lastTrace,
	}
	if w.pod != nil {
		e.Namespace, e.Name = w.pod.Namespace, w.pod.Name
	}
	return e
}

// PodInfo is one pod that the agent has.
type PodInfo struct {
	// Pod is read-only; its status is the source's, not the node's.
	Pod *corev1.Pod
	// Explanation says where it is.
	Explanation Explanation
}

// Pods lists the pods that the agent has, sorted by namespace, name and UID;
// leftovers of unknown pods are not among them.
func (a *Agent) Pods() []PodInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []PodInfo
	for _, w := range a.workers {
		if w.pod != nil {
			out = append(out, PodInfo{w.pod, w.explain()})
		}
	}
	slices.SortFunc(out, func(x, y PodInfo) int {
		return cmp.Or(cmp.Compare(x.Pod.Namespace, y.Pod.Namespace), cmp.Compare(x.Pod.Name, y.Pod.Name), cmp.Compare(x.Pod.UID, y.Pod.UID))
	})
	return out
}

// ErrUnknownPod says that the agent has no pod of that UID.
var ErrUnknownPod = errors.New("the agent has no pod of this UID")

// KillOptions says how Kill stops a pod.
type KillOptions struct {
	// Grace replaces the pod's grace if it is shorter. nil keeps the pod's own.
	Grace *time.Duration
	// Evicted marks a pod that the node throws out.
	Evicted bool
	// Phase (Failed or ""), Reason, Message and Conditions become the status'.
	Phase           corev1.PodPhase
	Reason, Message string
	Conditions      []corev1.PodCondition
}

// Kill stops a pod that its source still wants (eviction, shutdown, preemption)
// and waits until nothing of it runs or ctx ends; the pod is stopped all the
// same. It is sticky: nothing starts the pod again. An unknown UID gives
// ErrUnknownPod.
func (a *Agent) Kill(ctx context.Context, uid types.UID, o KillOptions) error {
	a.mu.Lock()
	w := a.workers[uid]
	if w == nil || w.pod == nil {
		a.mu.Unlock()
		return fmt.Errorf("kill pod %s: %w", uid, ErrUnknownPod)
	}
	done := make(chan struct{})
	if w.state >= stateTerminated {
		close(done)
	} else {
		w.done = append(w.done, done)
	}
	a.terminateLocked(w, Termination{Evicted: o.Evicted, Phase: o.Phase, Reason: o.Reason, Message: o.Message, Conditions: o.Conditions}, o.Grace)
	a.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill pod %s: it is still stopping: %w", uid, context.Cause(ctx))
	}
}
