package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// configErrorf makes an error of reason ReasonConfig.
func configErrorf(format string, args ...any) error {
	return podsync.WithReason(ReasonConfig, fmt.Errorf(format, args...))
}

// inContainer says which container of which pod err is about.
func inContainer(pod *corev1.Pod, container string, err error) error {
	return podsync.WithReason(ReasonConfig, fmt.Errorf("container %q of pod %s: %w", container, podsync.Ref(pod), err))
}
