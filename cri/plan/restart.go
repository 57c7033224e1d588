package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

// restartsOnProbe tells whether a container that a probe had killed is started
// again. Its restart rules have no say: nobody knows the exit code yet.
func restartsOnProbe(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

func initKind(c *corev1.Container) Kind {
	if podspec.IsSidecar(c) {
		return Sidecar
	}
	return Init
}
