package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// IsSidecar tells whether an init container is restartable: it goes on running
// beside the regular containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Restarts tells whether a container that exited with the code is to be started
// again: by the first of its restart rules that matches, else by its own restart
// policy, else by the pod's. Who starts containers and who tells of them both
// ask here, so that they never disagree.
func Restarts(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	if RestartRule(c, exitCode) != nil {
		return true
	}
	policy := corev1.ContainerRestartPolicy(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	switch policy {
	case corev1.ContainerRestartPolicyNever:
		return false
	case corev1.ContainerRestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// RestartRule returns the first of the container's restart rules that matches
// the exit code, nil if none does. Every action there is restarts the container,
// one of them its whole pod; a rule with an action or operator that is not known
// is passed over.
func RestartRule(c *corev1.Container, exitCode int32) *corev1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		r := &c.RestartPolicyRules[i]
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, exitCode)
		switch r.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			in = !in
		default:
			continue
		}
		known := r.Action == corev1.ContainerRestartRuleActionRestart ||
			r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		if in && known {
			return r
		}
	}
	return nil
}
