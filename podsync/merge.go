package podsync

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

// Operation says how a pod of a source changed, in the kubelet's terms.
type Operation string

// The operations, in the order in which one set's are handled.
const (
	// OpRemove: the source no longer has the pod.
	OpRemove Operation = "REMOVE"
	// OpAdd: the source has a new pod.
	OpAdd Operation = "ADD"
	// OpUpdate: the pod's spec, labels or annotations changed.
	OpUpdate Operation = "UPDATE"
	// OpDelete: the pod has, or has a new, deletion time or grace.
	OpDelete Operation = "DELETE"
	// OpReconcile: only the pod's status changed.
	OpReconcile Operation = "RECONCILE"
)

// Change is one pod's part of the difference between two sets of a source.
type Change struct {
	Op Operation
	// Pod is the new version; for OpRemove the last known one.
	Pod *corev1.Pod
}

// Diff compares two full sets of one source by UID and returns what changed:
// removals first, then additions from the oldest creation time to the newest,
// updates, deletions and status changes. It is a pure function; what did not
// change gives nothing.
func Diff(have map[types.UID]*corev1.Pod, set []*corev1.Pod) []Change {
	var out []Change
	seen := make(map[types.UID]bool, len(set))
	for _, p := range set {
		seen[p.UID] = true
		old, known := have[p.UID]
		switch {
		case !known:
			out = append(out, Change{OpAdd, p})
		case old == p:
		case differs(old, p):
			op := OpUpdate
			if p.DeletionTimestamp != nil {
				op = OpDelete
			}
			out = append(out, Change{op, p})
		case !equality.Semantic.DeepEqual(old.Status, p.Status):
			out = append(out, Change{OpReconcile, p})
		}
	}
	for uid, p := range have {
		if !seen[uid] {
			out = append(out, Change{OpRemove, p})
		}
	}
	order := []Operation{OpRemove, OpAdd, OpUpdate, OpDelete, OpReconcile}
	slices.SortStableFunc(out, func(a, b Change) int {
		if c := slices.Index(order, a.Op) - slices.Index(order, b.Op); c != 0 {
			return c
		}
		switch a.Op {
		case OpAdd:
			return a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time)
		case OpRemove:
			return cmp.Compare(a.Pod.UID, b.Pod.UID)
		default:
			return 0
		}
	})
	return out
}

// differs tells whether a pod changed in what the node acts on.
func differs(a, b *corev1.Pod) bool {
	return !equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) ||
		a.Generation != b.Generation ||
		!equality.Semantic.DeepEqual(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(a.Annotations, b.Annotations) ||
		!equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
