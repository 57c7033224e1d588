package podsync

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Source is a place that pods come from.
type Source interface {
	// Name identifies the source in logs and in the pods' config.source
	// annotation: "file", "http", "api". Unique within an agent.
	Name() string
	// Run hands over the source's whole set of pods, at first as soon as it is
	// known, even if it is empty, and again whenever it changed, until ctx ends.
	// A fault of the source is not an empty set: it keeps the last good one.
	// The pods are read-only from then on, for the source too. set does not block.
	Run(ctx context.Context, set func(pods []*corev1.Pod)) error
}
