package cgroups

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Manager brings pods' cgroups about. Pods handed in are read-only and are not
// changed afterwards by whoever hands them in. Every method is idempotent and
// safe for concurrent use, save that for one pod Ensure or Update must not run
// beside Remove. All errors are about the pod, or the node's tree, named in them;
// package cgroupstest holds what else every Manager must do.
type Manager interface {
	// Ensure makes the pod's cgroup exist with the pod's values and returns it as
	// CRI's cgroup_parent; "" means that this node gives pods no cgroups. It is
	// called in every sync of the pod and costs next to nothing when nothing
	// changed.
	Ensure(ctx context.Context, pod *corev1.Pod) (parent string, err error)
	// Update is Ensure that trusts nothing it remembers: it compares the cgroup
	// with what it should be, makes it again if it is gone, and repairs it.
	Update(ctx context.Context, pod *corev1.Pod) error
	// ReduceCPU leaves what runs in the pod's cgroup the least CPU there is. It
	// is for a pod that is no longer wanted and cannot be removed yet. A pod with
	// no cgroup is no error.
	ReduceCPU(ctx context.Context, uid types.UID) error
	// Remove kills what still runs in the pod's cgroup and removes it, whatever
	// its QoS class was. It takes a bounded time and fails when something is left;
	// whoever calls it calls it again later. A pod with no cgroup is no error.
	Remove(ctx context.Context, uid types.UID) error
	// List returns the UIDs of all pods that have a cgroup, sorted; those that
	// Remove would find something of, and no others.
	List(ctx context.Context) ([]types.UID, error)
	// RefreshTiers makes the cgroups of the QoS classes exist and repairs their
	// values. pods are those that hold resources on this node. Ensure and Remove
	// keep the tiers right by themselves for the pods they are called for; this is
	// for the start, so that what was running before counts at once, and for
	// repair.
	RefreshTiers(ctx context.Context, pods []*corev1.Pod) error
}

// MissingControllersError says that a cgroup lacks controllers that pods need.
type MissingControllersError struct {
	// Cgroup is the path of the cgroup below the mount, or a mount.
	Cgroup string
	// Missing are the controllers.
	Missing []string
	// Err is what the kernel said when they were to be enabled; may be nil.
	Err error
}

// Error names the cgroup and the controllers, and what to do.
func (e *MissingControllersError) Error() string {
	s := fmt.Sprintf("cgroup %s has no controller %s: enable it in cgroup.subtree_control of its parents, or in the kernel",
		e.Cgroup, strings.Join(e.Missing, ", "))
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns what the kernel said.
func (e *MissingControllersError) Unwrap() error { return e.Err }

// BusyError says that a pod's cgroup could not be removed in the time given.
type BusyError struct {
	// Cgroup is the directory that is left.
	Cgroup string
	// Pids are the processes still in it, as far as known.
	Pids []int
	// Err is why the last attempt failed.
	Err error
}

// Error names the cgroup and the processes.
func (e *BusyError) Error() string {
	s := "cgroup " + e.Cgroup + " cannot be removed"
	if len(e.Pids) > 0 {
		s += fmt.Sprintf("; processes %v were killed and are still there", e.Pids)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns why the last attempt failed.
func (e *BusyError) Unwrap() error { return e.Err }

// Noop is the Manager of a node that gives pods no cgroups: its stages skip.
// The runtime then puts containers where it likes, with their own limits only.
type Noop struct{}

var _ Manager = Noop{}

// Ensure returns "".
func (Noop) Ensure(context.Context, *corev1.Pod) (string, error) { return "", nil }

// Update does nothing.
func (Noop) Update(context.Context, *corev1.Pod) error { return nil }

// ReduceCPU does nothing.
func (Noop) ReduceCPU(context.Context, types.UID) error { return nil }

// Remove does nothing.
func (Noop) Remove(context.Context, types.UID) error { return nil }

// List returns nothing.
func (Noop) List(context.Context) ([]types.UID, error) { return nil, nil }

// RefreshTiers does nothing.
func (Noop) RefreshTiers(context.Context, []*corev1.Pod) error { return nil }
