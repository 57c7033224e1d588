package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// ReasonDeadlineExceeded is the reason of a pod that was active for longer than
// its activeDeadlineSeconds.
const ReasonDeadlineExceeded = "DeadlineExceeded"

// Compute makes a pod's status. It is a pure function: equal input gives an
// equal status, and the result shares nothing with the input that would ever be
// changed.
//
// A terminal phase that was said before, by Previous or by the pod's own status,
// stays. A terminal phase is said only with Terminal: until then the phase, its
// reason and its message stay as they were, while the containers' states follow
// the runtime.
func Compute(in Input) corev1.PodStatus {
	s, _ := compute(&in)
	return s
}

// Finished tells whether a pod has ended by itself: its containers are done and
// none is to be started again, or an init container failed for good. The pod's
// own status counts as what was said before.
func Finished(pod *corev1.Pod, r *podsync.RuntimePod) bool {
	_, wanted := compute(&Input{Pod: pod, Runtime: r})
	return Terminal(wanted)
}

// compute returns the status and the phase that the pod would have if nothing
// had to be held back.
func compute(in *Input) (s corev1.PodStatus, wanted corev1.PodPhase) {
	prev := in.previous()
	if settled(in, prev) {
		s = *prev.DeepCopy()
		s.ObservedGeneration = max(prev.ObservedGeneration, in.Pod.Generation)
		return s, s.Phase
	}
	s = corev1.PodStatus{
		ObservedGeneration:                   max(in.Pod.Generation, prev.ObservedGeneration),
		QOSClass:                             qosClass(in.Pod, prev),
		StartTime:                            startTime(in, prev),
		NominatedNodeName:                    in.Pod.Status.NominatedNodeName,
		ResourceClaimStatuses:                in.Pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus:          in.Pod.Status.ExtendedResourceClaimStatus,
		NodeAllocatableResourceClaimStatuses: in.Pod.Status.NodeAllocatableResourceClaimStatuses,
	}
	s.AllocatedResources, s.Resources = podResources(in, prev)
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = containerStatuses(in)
	s.Phase = Phase(in.Pod, &s, Life{
		Terminal: in.Terminal, Static: in.Static, RegularStarted: regularStarted(in.Pod, in.Runtime),
	})
	if in.Terminal && !runs(in.Runtime) {
		endContainers(in, &s)
		if !Terminal(s.Phase) && !in.Static {
			s.Phase = corev1.PodFailed
		}
	}
	wanted = decidePhase(in, prev, &s)
	hostIPs(in, &s)
	podIPs(in, &s)
	s.Conditions = conditions(in, &s)
	limitMessages(&s)
	return s, wanted
}

// settled tells whether a pod has ended and all is said: nothing may be made up
// for one that was refused before it had containers, and nothing remains to be
// learned of one whose containers' ends are known.
func settled(in *Input, prev *corev1.PodStatus) bool {
	if !Terminal(prev.Phase) || in.Runtime != nil && len(in.Runtime.Containers) > 0 {
		return false
	}
	for _, l := range [...][]corev1.ContainerStatus{prev.InitContainerStatuses, prev.ContainerStatuses} {
		for i := range l {
			if l[i].State.Terminated == nil {
				return false
			}
		}
	}
	return true
}

// runs tells whether the runtime was last seen with a running container of the
// pod. One whose state it does not know does not count: it has been stopped as far
// as that is possible.
func runs(r *podsync.RuntimePod) bool {
	if r == nil {
		return false
	}
	for _, c := range r.Containers {
		if c.Running() {
			return true
		}
	}
	return false
}

// decidePhase settles the phase with its reason and message, and returns the
// phase that is wanted.
func decidePhase(in *Input, prev, s *corev1.PodStatus) corev1.PodPhase {
	for _, before := range [...]*corev1.PodStatus{prev, &in.Pod.Status} {
		if Terminal(before.Phase) {
			s.Phase, s.Reason, s.Message = before.Phase, before.Reason, before.Message
			return s.Phase
		}
	}
	forced := in.Termination.Phase
	if forced != "" && in.Terminal {
		s.Phase = forced
	}
	wanted := s.Phase
	if Terminal(s.Phase) && (!in.Terminal || runs(in.Runtime)) {
		s.Phase = prev.Phase
		if s.Phase == "" {
			s.Phase = corev1.PodPending
		}
	}
	switch {
	case forced != "" && s.Phase == forced:
		s.Reason, s.Message = in.Termination.Reason, in.Termination.Message
	case s.Phase == prev.Phase:
		s.Reason, s.Message = prev.Reason, prev.Message
	}
	return wanted
}

// podResources are what a pod with pod-level resources was given and what it has.
func podResources(in *Input, prev *corev1.PodStatus) (allocated corev1.ResourceList, has *corev1.ResourceRequirements) {
	spec := in.Pod.Spec.Resources
	if spec == nil || len(spec.Requests)+len(spec.Limits) == 0 {
		return prev.AllocatedResources, prev.Resources
	}
	allocated = resourcehelper.PodRequests(in.Pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	has = spec.DeepCopy()
	if r := in.Runtime; r != nil && len(r.Sandboxes) > 0 && r.Sandboxes[0].Ready {
		actuatedResources(has, r.Sandboxes[0].Actuated)
	}
	return allocated, has
}

func qosClass(pod *corev1.Pod, prev *corev1.PodStatus) corev1.PodQOSClass {
	if prev.QOSClass != "" {
		return prev.QOSClass
	}
	return podspec.QOS(pod)
}

func startTime(in *Input, prev *corev1.PodStatus) *metav1.Time {
	for _, t := range [...]*metav1.Time{prev.StartTime, in.Pod.Status.StartTime} {
		if t != nil && !t.IsZero() {
			t := seconds(*t)
			return &t
		}
	}
	t := seconds(in.Now)
	return &t
}

// endContainers gives each container of a stopped pod an end, where there is
// reason to believe that it had begun. If the pod had been initialised that is
// every regular container; of the init containers it is those up to the last
// that shows a start, and at least the first.
func endContainers(in *Input, s *corev1.PodStatus) {
	if initialisedOnce(in, s) {
		for i := range s.ContainerStatuses {
			endUnknown(&s.ContainerStatuses[i])
		}
	}
	last := 0
	for i := range s.InitContainerStatuses {
		if st := &s.InitContainerStatuses[i]; st.State.Waiting == nil || st.LastTerminationState.Terminated != nil {
			last = i
		}
	}
	for i := range s.InitContainerStatuses {
		if i <= last {
			endUnknown(&s.InitContainerStatuses[i])
		}
	}
}

// initialisedOnce tells whether the pod's regular containers may ever have been
// started.
func initialisedOnce(in *Input, s *corev1.PodStatus) bool {
	n := len(in.Pod.Spec.InitContainers)
	if n == 0 {
		return true
	}
	for i := range s.ContainerStatuses {
		if st := &s.ContainerStatuses[i]; st.State.Waiting == nil || st.LastTerminationState.Terminated != nil {
			return true
		}
	}
	last := &in.Pod.Spec.InitContainers[n-1]
	st := containerStatus(s.InitContainerStatuses, last.Name)
	switch {
	case st == nil:
		return false
	case podspec.IsSidecar(last):
		return st.Started != nil && *st.Started
	default:
		return st.State.Terminated != nil && initSucceeded(st.State.Terminated)
	}
}

func endUnknown(st *corev1.ContainerStatus) {
	if st.State.Terminated != nil {
		return
	}
	started := false
	st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reasonStatusUnknown, ExitCode: exitUnknown, ContainerID: st.ContainerID,
		Message: "the pod was stopped and how this container ended is not known",
	}}
	st.Started, st.Ready = &started, false
}

// Rejected makes the status of a pod that the node refused: Failed with the
// reason and message. What the pod's own status said before stays, and nothing
// is made up: no container statuses and no conditions. A terminal phase that was
// said before is left as it was. It is not for a pod whose containers still run.
func Rejected(pod *corev1.Pod, previous *corev1.PodStatus, reason, message string, now metav1.Time) corev1.PodStatus {
	in := Input{Pod: pod, Previous: previous, Now: now}
	prev := in.previous()
	if Terminal(prev.Phase) {
		return *prev.DeepCopy()
	}
	s := *pod.Status.DeepCopy()
	if Terminal(s.Phase) {
		return s
	}
	s.Phase, s.Reason, s.Message = corev1.PodFailed, reason, clip(message, maxMessage)
	s.ObservedGeneration = max(pod.Generation, prev.ObservedGeneration)
	s.QOSClass = qosClass(pod, prev)
	s.StartTime = startTime(&in, prev)
	return s
}

// Deadline tells how much of its activeDeadlineSeconds a pod has left since it
// was taken by the node; ok is false when it has none or was not taken yet. It is
// exceeded when nothing is left. Whether the pod has ended is not looked at.
func Deadline(pod *corev1.Pod, start *metav1.Time, now time.Time) (left time.Duration, ok bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || start == nil || start.IsZero() {
		return 0, false
	}
	d := time.Duration(min(*pod.Spec.ActiveDeadlineSeconds, 1<<33)) * time.Second
	return max(d-now.Sub(start.Time), 0), true
}
