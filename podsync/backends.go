package podsync

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reporter is told how runs end, so that a pod's status can say what no stage
// knows while it runs: a rejection, or what the pod waits for. Package status
// implements it. Safe for concurrent use; must not block on the network.
type Reporter interface {
	// Ended is called after each run of a phase with its outcome. A Reject or
	// Fail of the admit phase means that the pod's status is to become Failed at
	// once; later in life the terminating phase does that when all has stopped.
	Ended(ctx context.Context, s *Sync, p Phase, o Outcome)
	// Forget is called when a pod is gone for good: no source has it, nothing
	// of it is left on the node.
	Forget(ctx context.Context, uid types.UID)
}

// Refresher is a Reporter that can tell of a pod's state in the middle of a run.
type Refresher interface {
	// Refresh is called when a stage learned something new of the runtime.
	Refresh(s *Sync)
}

// StatusKeeper is a Reporter that knows statuses from before this process.
type StatusKeeper interface {
	// Get returns the pod's last status, ok is false when there is none.
	Get(uid types.UID) (st corev1.PodStatus, ok bool)
}

// Cleaner knows one kind of thing that pods hold on the node (sandboxes,
// directories, cgroups) and can find and remove those of pods that nobody knows
// any more. The agent calls it when every source was seen and no worker has the
// pod. Safe for concurrent use.
type Cleaner interface {
	// Name is for logs: "sandboxes", "pod directories".
	Name() string
	// Pods lists the UIDs of the pods that hold something of this kind.
	Pods(ctx context.Context) ([]types.UID, error)
	// Remove removes what the pod holds. It is idempotent, it may refuse while
	// something is still in use, and it is then called again later.
	Remove(ctx context.Context, uid types.UID) error
}
