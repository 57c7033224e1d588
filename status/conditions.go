package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// Reasons of the conditions.
const (
	ReasonPodCompleted       = "PodCompleted"
	ReasonPodFailed          = "PodFailed"
	ReasonUnknownStatuses    = "UnknownContainerStatuses"
	ReasonNotInitialized     = "ContainersNotInitialized"
	ReasonContainersNotReady = "ContainersNotReady"
	ReasonGatesNotReady      = "ReadinessGatesNotReady"
	ReasonSandboxNotReady    = "PodSandboxNotReady"
	ReasonRestartAllStarted  = "RestartAllContainersStarted"
)

// Conditions makes the conditions of a pod whose phase and container statuses
// are those of s: first those of other owners, from the pod's own status, then
// DisruptionTarget, then the agent's own (PodReadyToStartContainers, Initialized,
// Ready, ContainersReady, PodScheduled, and AllContainersRestarting where a
// restart rule can bring it about). A transition time changes only with the
// condition's status, an observed generation never falls.
func Conditions(in Input, s *corev1.PodStatus) []corev1.PodCondition {
	return conditions(&in, s)
}

func conditions(in *Input, s *corev1.PodStatus) []corev1.PodCondition {
	prev := in.previous().Conditions
	out := make([]corev1.PodCondition, 0, len(in.Pod.Status.Conditions)+7)
	for i := range in.Pod.Status.Conditions {
		if c := &in.Pod.Status.Conditions[i]; !OwnsCondition(c.Type) {
			out = append(out, *c)
		}
	}
	add := func(c corev1.PodCondition) { out = append(out, stamp(in, prev, c)) }

	for _, c := range disruption(in, s) {
		add(c)
	}
	ready := containersReady(in.Pod, s)
	add(readyToStart(in, prev))
	add(initialized(in, s, prev))
	add(podReady(in.Pod, ready))
	add(ready)
	add(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	for _, c := range resizeConditions(in, s, prev) {
		out = append(out, c)
	}
	if hasRestartAllRule(in.Pod) {
		c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse}
		if restartingAll(in) {
			c.Status, c.Reason = corev1.ConditionTrue, ReasonRestartAllStarted
		}
		add(c)
	}
	return out
}

// ReasonResizeError is the reason of PodResizeInProgress when what the pod was
// given could not be brought about.
const ReasonResizeError = corev1.PodReasonError

// resizeConditions are PodResizePending, while the pod's source asks for other
// resources than it was given, and PodResizeInProgress, while what runs of it has
// others than it was given. Both are absent otherwise, and of a pod that has
// ended.
func resizeConditions(in *Input, s *corev1.PodStatus, prev []corev1.PodCondition) (out []corev1.PodCondition) {
	if Terminal(s.Phase) || in.stopping() {
		return nil
	}
	if in.Resize.Pending() {
		out = append(out, stamp(in, prev, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: in.Resize.Reason, Message: in.Resize.Message}))
	}
	if !podsync.ResizeInProgress(in.Pod, in.Runtime) {
		return out
	}
	c := corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}
	if in.Runtime.ResizeError != "" {
		c.Reason, c.Message = ReasonResizeError, in.Runtime.ResizeError
	}
	c = stamp(in, prev, c)
	if old := condition(prev, c.Type); old != nil {
		c.ObservedGeneration = old.ObservedGeneration // of the resize that is under way
	}
	return append(out, c)
}

// OwnsCondition tells whether a condition of a pod is the agent's to write, as
// with the kubelet. All others are foreign and are left as they are.
func OwnsCondition(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReadyToStartContainers, corev1.DisruptionTarget, corev1.AllContainersRestarting,
		corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	default:
		return false
	}
}

// stamp gives a condition its times and generation.
func stamp(in *Input, prev []corev1.PodCondition, c corev1.PodCondition) corev1.PodCondition {
	c.Message = clip(c.Message, maxMessage)
	c.ObservedGeneration = in.Pod.Generation
	c.LastTransitionTime = seconds(in.Now)
	if old := condition(prev, c.Type); old != nil {
		c.ObservedGeneration = max(c.ObservedGeneration, old.ObservedGeneration)
		if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = seconds(old.LastTransitionTime)
		}
	}
	return c
}

// disruption are the conditions that came with the pod's termination. They are
// said when it has ended, not while it still stops; one said before stays.
func disruption(in *Input, s *corev1.PodStatus) []corev1.PodCondition {
	var out []corev1.PodCondition
	if in.Terminal && Terminal(s.Phase) {
		for _, c := range in.Termination.Conditions {
			if condition(out, c.Type) == nil {
				out = append(out, c)
			}
		}
	}
	if condition(out, corev1.DisruptionTarget) != nil {
		return out
	}
	for _, from := range [][]corev1.PodCondition{in.previous().Conditions, in.Pod.Status.Conditions} {
		if c := condition(from, corev1.DisruptionTarget); c != nil {
			return append(out, *c)
		}
	}
	return out
}

// readyToStart tells whether the pod has a sandbox that containers can be
// started in. While it has none, what the pod waits for is the reason.
func readyToStart(in *Input, prev []corev1.PodCondition) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if !in.observed() {
		if old := condition(prev, c.Type); old != nil && !in.Terminal {
			return *old
		}
	}
	why := sandboxProblem(in)
	if why == "" {
		return c
	}
	c.Status, c.Reason, c.Message = corev1.ConditionFalse, ReasonSandboxNotReady, why
	if w := in.Waiting; !w.zero() && !in.stopping() {
		if w.Reason != "" {
			c.Reason = w.Reason
		}
		if w.Message != "" {
			c.Message = w.Message
		}
	}
	return c
}

// sandboxProblem says why the pod needs a new sandbox, "" when it has a good
// one: exactly one ready, the newest, with the host network as the spec wants it
// and an address if it is on the pod network.
func sandboxProblem(in *Input) string {
	if in.Runtime == nil || len(in.Runtime.Sandboxes) == 0 {
		return "the pod has no sandbox"
	}
	ready := 0
	for _, s := range in.Runtime.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	newest := in.Runtime.Sandboxes[0]
	if !newest.Ready {
		return "the pod's newest sandbox is not ready"
	}
	if ready > 1 {
		return fmt.Sprintf("the pod has %d ready sandboxes where one is right", ready)
	}
	if newest.HostNetwork != in.Pod.Spec.HostNetwork {
		return "the sandbox's use of the host network is not what the pod wants"
	}
	if !in.Pod.Spec.HostNetwork && newest.NetworkKnown && len(newest.IPs) == 0 {
		return "the sandbox has no address"
	}
	return ""
}

func initialized(in *Input, s *corev1.PodStatus, prev []corev1.PodCondition) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if s.Phase == corev1.PodSucceeded {
		c.Reason = ReasonPodCompleted
		return c
	}
	var unknown, unfinished []string
	for i := range in.Pod.Spec.InitContainers {
		ic := &in.Pod.Spec.InitContainers[i]
		st := containerStatus(s.InitContainerStatuses, ic.Name)
		switch {
		case st == nil:
			unknown = append(unknown, ic.Name)
		case podspec.IsSidecar(ic) && (st.Started == nil || !*st.Started), !podspec.IsSidecar(ic) && !st.Ready:
			unfinished = append(unfinished, ic.Name)
		}
	}
	if len(unknown)+len(unfinished) == 0 {
		return c
	}
	if old := condition(prev, c.Type); old != nil && old.Status == corev1.ConditionTrue {
		return c
	}
	if regularStarted(in.Pod, in.Runtime) {
		return c
	}
	c.Status, c.Reason = corev1.ConditionFalse, ReasonNotInitialized
	if len(unfinished) == 0 {
		c.Reason = ReasonUnknownStatuses
	}
	c.Message = missingMessage(unknown, "not finished", unfinished)
	return c
}

func containersReady(pod *corev1.Pod, s *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch s.Phase {
	case corev1.PodSucceeded:
		c.Reason = ReasonPodCompleted
		return c
	case corev1.PodFailed:
		c.Reason = ReasonPodFailed
		return c
	default:
	}
	var unknown, unready []string
	look := func(l []corev1.ContainerStatus, name string) {
		switch st := containerStatus(l, name); {
		case st == nil:
			unknown = append(unknown, name)
		case !st.Ready:
			unready = append(unready, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if ic := &pod.Spec.InitContainers[i]; podspec.IsSidecar(ic) {
			look(s.InitContainerStatuses, ic.Name)
		}
	}
	for i := range pod.Spec.Containers {
		look(s.ContainerStatuses, pod.Spec.Containers[i].Name)
	}
	switch {
	case len(unready) > 0:
		c.Reason = ReasonContainersNotReady
	case len(unknown) > 0:
		c.Reason = ReasonUnknownStatuses
	default:
		c.Status = corev1.ConditionTrue
		return c
	}
	c.Message = missingMessage(unknown, "not ready", unready)
	return c
}

func missingMessage(unknown []string, what string, names []string) string {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, "containers of unknown status: "+strings.Join(unknown, ", "))
	}
	if len(names) > 0 {
		parts = append(parts, "containers "+what+": "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; ")
}

// podReady is Ready: the containers are, and every readiness gate is True.
func podReady(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var closed []string
	for _, g := range pod.Spec.ReadinessGates {
		switch gate := condition(pod.Status.Conditions, g.ConditionType); {
		case gate == nil:
			closed = append(closed, fmt.Sprintf("the condition of readiness gate %q is missing", g.ConditionType))
		case gate.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("readiness gate %q is %s, not True", g.ConditionType, gate.Status))
		}
	}
	if len(closed) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, ReasonGatesNotReady
		c.Message = strings.Join(closed, "; ")
	}
	return c
}

// condition returns the condition of that type, nil if there is none.
func condition(l []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range l {
		if l[i].Type == t {
			return &l[i]
		}
	}
	return nil
}
