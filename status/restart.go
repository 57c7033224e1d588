package status

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// Reasons of the kubelet's that are set here, apart from the conditions'.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonStatusUnknown     = "ContainerStatusUnknown"
	reasonRestartingAll     = "RestartingAllContainers"
	reasonCompleted         = "Completed"
	reasonOOMKilled         = "OOMKilled"

	// exitUnknown is the exit code of a container whose end nobody saw: that of
	// a process killed by SIGKILL.
	exitUnknown = 137
)

// hasRestartAllRule tells whether an exit of some container may restart all.
func hasRestartAllRule(pod *corev1.Pod) bool {
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			for _, r := range cs[i].RestartPolicyRules {
				if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// restartingAll tells whether all containers are being restarted because one of
// them exited in a way that demands it, and what is to be removed for it is
// still there.
func restartingAll(in *Input) bool {
	if in.stopping() || !in.observed() || !hasRestartAllRule(in.Pod) {
		return false
	}
	for _, cs := range [][]corev1.Container{in.Pod.Spec.InitContainers, in.Pod.Spec.Containers} {
		for i := range cs {
			c := in.Runtime.Container(cs[i].Name)
			if c == nil || c.State != podsync.ContainerExited {
				continue
			}
			r := podspec.RestartRule(&cs[i], c.ExitCode)
			if r != nil && r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	old := condition(in.previous().Conditions, corev1.AllContainersRestarting)
	if old == nil || old.Status != corev1.ConditionTrue {
		return false
	}
	for _, c := range in.Runtime.Containers {
		if c.CreatedAt.Before(old.LastTransitionTime.Time) {
			return true
		}
	}
	return false
}

// restartDue tells whether the container would be started by the next run of
// the sync phase: it has no instance, one that never ran or is lost, or one
// whose end demands it.
func restartDue(in *Input, c *corev1.Container, init bool) bool {
	if in.stopping() {
		return false
	}
	rc := in.Runtime.Container(c.Name)
	if rc == nil {
		return true
	}
	switch rc.State {
	case podsync.ContainerRunning:
		return false
	case podsync.ContainerExited:
		if init && !podspec.IsSidecar(c) && rc.ExitCode == 0 && rc.Reason != reasonOOMKilled {
			return false
		}
		return podspec.Restarts(in.Pod, c, rc.ExitCode)
	default:
		return true
	}
}

// regularStarted tells whether a regular container has been started in the
// newest sandbox. Those of an older sandbox do not count: with a new sandbox the
// pod initialises anew.
func regularStarted(pod *corev1.Pod, r *podsync.RuntimePod) bool {
	if r == nil || len(r.Sandboxes) == 0 {
		return false
	}
	for _, c := range r.Containers {
		if c.SandboxID != r.Sandboxes[0].ID || !isRegular(pod, c.Name) {
			continue
		}
		switch c.State {
		case podsync.ContainerRunning, podsync.ContainerExited:
			return true
		default:
		}
	}
	return false
}

// regularCreated tells whether the runtime holds an instance of a regular
// container, of whatever sandbox.
func regularCreated(pod *corev1.Pod, r *podsync.RuntimePod) bool {
	for _, c := range r.Containers {
		if isRegular(pod, c.Name) {
			return true
		}
	}
	return false
}

func isRegular(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}
