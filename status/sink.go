package status

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ref says which pod is meant.
type Ref struct {
	// UID identifies the pod; Namespace and Name are for people and for sinks
	// whose objects go by them.
	UID             types.UID
	Namespace, Name string
}

// String returns "namespace/name(uid)".
func (r Ref) String() string { return r.Namespace + "/" + r.Name + "(" + string(r.UID) + ")" }

// Record is a pod's status as a sink gets it. It is read-only.
type Record struct {
	Ref
	// Status is the whole status.
	Status corev1.PodStatus
	// Version rises with every change of any pod's status in this process.
	Version uint64
	// Finished: the pod has ended and has given everything back. A sink whose
	// objects outlive the pod (an API server) may then delete one that is
	// Deleting.
	Finished bool
	// Deleting: the pod has a deletionTimestamp.
	Deleting bool
}

// Sink is a place that statuses are written to. The Manager calls it for
// different pods at once, for one pod never twice at a time, and again with the
// newest status after an error. Implementations must pass statustest.Sink.
type Sink interface {
	// Patch makes the pod's status known. It is idempotent. An error that matches
	// podsync.ErrNotFound says that there is nothing to write it to: it is not
	// tried again before the status changes.
	Patch(ctx context.Context, r Record) error
	// Delete removes what Patch left of a pod that is gone for good. A pod that
	// the sink does not know is no error.
	Delete(ctx context.Context, r Ref) error
}

// Loader is a Sink that can give back what was last written to it, so that an
// agent that starts again goes on from there.
type Loader interface {
	// Load returns the last record of every pod. Records that cannot be read are
	// left out and named in the error; the others are returned along with it.
	Load(ctx context.Context) ([]Record, error)
}
