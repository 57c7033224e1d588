package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Restarts tells whether a container that exited with this code is to be
// started again: by the first of its restart rules that matches, else by its
// own restartPolicy, else by the pod's.
func Restarts(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	if c.RestartPolicy != nil {
		if r := rule(c, exitCode); r != nil {
			switch r.Action {
			case corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers:
				return true
			}
		}
		switch *c.RestartPolicy {
		case corev1.ContainerRestartPolicyAlways:
			return true
		case corev1.ContainerRestartPolicyOnFailure:
			return exitCode != 0
		case corev1.ContainerRestartPolicyNever:
			return false
		}
	}
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// rule returns the first restart rule of the container that the exit code
// matches, nil if none does.
func rule(c *corev1.Container, exitCode int32) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, exitCode)
		switch r.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			if in {
				return r
			}
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !in {
				return r
			}
		}
	}
	return nil
}

// restartsOnProbe tells whether a container that a probe had killed is started
// again. Its restart rules have no say: nobody knows the exit code yet.
func restartsOnProbe(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// IsSidecar tells whether an init container is restartable.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func initKind(c *corev1.Container) Kind {
	if IsSidecar(c) {
		return Sidecar
	}
	return Init
}
