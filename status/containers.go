package status

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// ContainerStatuses makes the statuses of a pod's init, regular and ephemeral
// containers of what the runtime holds and of what was said of them before.
// Init containers come in the order of the spec, the others by name.
//
// Of each container the newest instance is its state and the one before it its
// last termination, of whatever sandbox they are. A container that the runtime
// does not know keeps an end that was seen, and one that was running is taken to
// have ended with ContainerStatusUnknown and exit code 137: nobody saw how. A
// restart count never falls.
func ContainerStatuses(in Input) (init, regular, ephemeral []corev1.ContainerStatus) {
	return containerStatuses(&in)
}

func containerStatuses(in *Input) (init, regular, ephemeral []corev1.ContainerStatus) {
	prev := in.previous()
	spec := &in.Pod.Spec
	b := builder{in: in, all: restartingAll(in), observed: in.observed()}
	if n := len(spec.InitContainers); n > 0 {
		init = make([]corev1.ContainerStatus, 0, n)
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			init = append(init, b.status(c, containerStatus(prev.InitContainerStatuses, c.Name), true))
		}
	}
	if n := len(spec.Containers); n > 0 {
		regular = make([]corev1.ContainerStatus, 0, n)
		for i := range spec.Containers {
			c := &spec.Containers[i]
			regular = append(regular, b.status(c, containerStatus(prev.ContainerStatuses, c.Name), false))
		}
	}
	if n := len(spec.EphemeralContainers); n > 0 {
		ephemeral = make([]corev1.ContainerStatus, 0, n)
		for i := range spec.EphemeralContainers {
			c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
			st := b.base(&c, containerStatus(prev.EphemeralContainerStatuses, c.Name), false)
			st.Started = nil
			ephemeral = append(ephemeral, st)
		}
	}
	slices.SortFunc(regular, byName)
	slices.SortFunc(ephemeral, byName)
	return init, regular, ephemeral
}

func byName(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) }

// builder makes the container statuses of one pod.
type builder struct {
	in       *Input
	all      bool // all containers are being restarted
	observed bool
}

// status makes the status of an init or regular container.
func (b *builder) status(c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	st := b.base(c, old, init)
	b.applyReason(c, &st, init)
	b.applyVerdict(c, &st, old, init)
	return st
}

// base is the status without the reason of a failed start and without readiness.
func (b *builder) base(c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	if !b.observed && old != nil {
		st := *old.DeepCopy()
		st.Name = c.Name
		return st
	}
	newest, second := instances(b.in.Runtime, c.Name)
	if newest == nil {
		return b.missing(c, old, init)
	}
	st := b.convert(c, newest, old)
	switch last := endOf(second, b.in); {
	case last != nil:
		st.LastTerminationState.Terminated = last
	case old == nil:
	case old.ContainerID != st.ContainerID && old.State.Terminated != nil:
		// The instance before it is gone from the runtime.
		st.LastTerminationState.Terminated = old.State.Terminated.DeepCopy()
	case old.LastTerminationState.Terminated != nil && !ends(old.LastTerminationState.Terminated, st.ContainerID):
		st.LastTerminationState.Terminated = old.LastTerminationState.Terminated.DeepCopy()
	}
	return st
}

// instances returns the two newest instances of a container.
func instances(r *podsync.RuntimePod, name string) (newest, second *podsync.RuntimeContainer) {
	if r == nil {
		return nil, nil
	}
	for _, c := range r.Containers {
		if c.Name != name {
			continue
		}
		if newest != nil {
			return newest, c
		}
		newest = c
	}
	return newest, nil
}

// missing is the status of a container that the runtime holds no instance of.
func (b *builder) missing(c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	st := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
	if old != nil {
		st = *old.DeepCopy() // what there was last
		if st.State.Terminated != nil && !b.all {
			return st
		}
		if st.ContainerID == "" {
			st.Image = c.Image
		}
	}
	st.State = b.waiting()
	switch {
	case b.all && old != nil && (old.State.Running != nil || old.State.Terminated != nil):
		st.State.Waiting.Reason, st.State.Waiting.Message = reasonRestartingAll, ""
		st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonRestartingAll, ExitCode: exitUnknown, ContainerID: old.ContainerID,
			Message: "removed because all containers of the pod are restarted",
		}
		st.RestartCount++
	case b.all && old != nil && old.State.Waiting != nil && old.State.Waiting.Reason == reasonRestartingAll:
		st.State.Waiting.Reason, st.State.Waiting.Message = reasonRestartingAll, ""
	case !b.all && init && !podspec.IsSidecar(c) && b.in.Runtime != nil && regularCreated(b.in.Pod, b.in.Runtime):
		// Regular containers are only made when the init containers are done.
		st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason:  reasonCompleted,
			Message: "the runtime no longer has this init container; the pod has been initialised",
		}}
	case old != nil && old.State.Running != nil && st.LastTerminationState.Terminated == nil:
		// As mere waiting it would take the pod back to Pending.
		st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonStatusUnknown, ExitCode: exitUnknown, ContainerID: old.ContainerID,
			Message: "the container was running and is gone from the runtime; how it ended is not known",
		}
		if !b.in.stopping() {
			st.RestartCount++
		}
	}
	return st
}

// waiting is the state of a container that is yet to be made: it waits for the
// init containers, for what the pod as a whole waits for, or just to be made.
func (b *builder) waiting() corev1.ContainerState {
	w := &corev1.ContainerStateWaiting{Reason: reasonContainerCreating}
	if len(b.in.Pod.Spec.InitContainers) > 0 {
		w.Reason = reasonPodInitializing
	}
	if p := b.in.Waiting; !p.zero() && !b.in.stopping() && !b.perContainer() {
		w.Message = p.Message
		if p.Reason != "" {
			w.Reason = p.Reason
		}
	}
	return corev1.ContainerState{Waiting: w}
}

// perContainer tells whether what the pod waits for is the matter of single
// containers, whose own reasons say more.
func (b *builder) perContainer() bool {
	r := b.in.Runtime
	if r == nil {
		return false
	}
	return len(r.Waiting) > 0 || b.in.Waiting.Stage == podsync.StageRuntime && r.SandboxReady()
}

// convert makes the status of an instance.
func (b *builder) convert(c *corev1.Container, rc *podsync.RuntimeContainer, old *corev1.ContainerStatus) corev1.ContainerStatus {
	st := corev1.ContainerStatus{
		Name:         c.Name,
		RestartCount: int32(min(max(rc.RestartCount, 0), 1<<31-1)),
		Image:        rc.Image,
		ImageID:      rc.ImageRef,
		ContainerID:  b.in.containerID(rc.ID),
	}
	if old != nil {
		st.RestartCount = max(st.RestartCount, old.RestartCount)
	}
	switch rc.State {
	case podsync.ContainerRunning:
		st.State.Running = &corev1.ContainerStateRunning{StartedAt: seconds(metav1.NewTime(rc.StartedAt))}
	case podsync.ContainerExited:
		st.State.Terminated = endOf(rc, b.in)
	case podsync.ContainerUnknown:
		b.convertUnknown(&st, old)
	default: // created, not started yet
		st.State.Waiting = &corev1.ContainerStateWaiting{}
	}
	b.describe(c, rc, &st, old)
	return st
}

// convertUnknown: the runtime lost track of a container. One that ran has
// ended as far as anybody can tell, and that stays so.
func (b *builder) convertUnknown(st, old *corev1.ContainerStatus) {
	switch {
	case old != nil && old.ContainerID == st.ContainerID && old.State.Terminated != nil:
		st.State = *old.State.DeepCopy()
	case old != nil && ends(old.LastTerminationState.Terminated, st.ContainerID):
		st.State = *old.LastTerminationState.DeepCopy()
	case old != nil && old.State.Running != nil:
		st.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonStatusUnknown, ExitCode: exitUnknown, ContainerID: st.ContainerID,
			StartedAt: old.State.Running.StartedAt,
			Message:   "the runtime no longer knows the state of this container, which was running",
		}
		if !b.in.stopping() {
			st.RestartCount = max(st.RestartCount, old.RestartCount+1)
		}
	default:
		st.State.Waiting = &corev1.ContainerStateWaiting{}
	}
}

// endOf returns how an instance ended, nil if it did not.
func endOf(rc *podsync.RuntimeContainer, in *Input) *corev1.ContainerStateTerminated {
	if rc == nil || rc.State != podsync.ContainerExited {
		return nil
	}
	return &corev1.ContainerStateTerminated{
		ExitCode:    rc.ExitCode,
		Reason:      rc.Reason,
		Message:     rc.Message,
		StartedAt:   seconds(metav1.NewTime(rc.StartedAt)),
		FinishedAt:  seconds(metav1.NewTime(rc.FinishedAt)),
		ContainerID: in.containerID(rc.ID),
	}
}

// ends tells whether an end is that of the instance with the id.
func ends(t *corev1.ContainerStateTerminated, id string) bool { return t != nil && t.ContainerID == id }

// applyReason puts in why a container that should run does not: its last end,
// if it had one of its own, becomes its last termination.
func (b *builder) applyReason(c *corev1.Container, st *corev1.ContainerStatus, init bool) {
	if b.in.Runtime == nil || st.State.Running != nil {
		return
	}
	w, ok := b.in.Runtime.Waiting[c.Name]
	if !ok || !restartDue(b.in, c, init) {
		return
	}
	if t := st.State.Terminated; t != nil && t.ContainerID != "" {
		st.LastTerminationState = corev1.ContainerState{Terminated: t}
	}
	st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}}
}

// applyVerdict sets Started and Ready.
func (b *builder) applyVerdict(c *corev1.Container, st, old *corev1.ContainerStatus, init bool) {
	started, ready := b.verdict(c, st, old)
	if init && !podspec.IsSidecar(c) {
		ready = st.State.Terminated != nil && initSucceeded(st.State.Terminated)
	}
	st.Started, st.Ready = &started, ready
}

// verdict tells whether a container counts as started and as ready, as its
// probes say. Before a new prober has a verdict on an instance (after a restart
// of the agent) what was said of that very instance still holds.
func (b *builder) verdict(c *corev1.Container, st, old *corev1.ContainerStatus) (started, ready bool) {
	if st.State.Running == nil {
		return false, false
	}
	if b.in.Runtime != nil {
		if v, ok := b.in.Runtime.Probes[c.Name]; ok && b.in.containerID(v.ContainerID) == st.ContainerID {
			return v.Started, v.Started && v.Ready
		}
	}
	if !b.in.Probed {
		return true, true
	}
	started, ready = c.StartupProbe == nil, c.ReadinessProbe == nil
	if old != nil && old.State.Running != nil && old.ContainerID == st.ContainerID {
		started = started || old.Started != nil && *old.Started
		ready = ready || old.Ready
	}
	return started, started && ready
}

// containerID adds the runtime's name to a container id.
func (in *Input) containerID(id string) string {
	if id == "" {
		return ""
	}
	name := in.RuntimeName
	if name == "" {
		name = "cri"
	}
	return name + "://" + id
}
