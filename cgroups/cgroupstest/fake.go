package cgroupstest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cgroups"
)

// Fake is a cgroups.Manager of which a test replaces single methods: each call
// goes to the function of its name, and where that is nil to Next. Limits: it
// keeps nothing itself; what the functions say and what Next holds can differ.
// Set the fields before use.
type Fake struct {
	// Next takes what is not replaced, cgroups.NewDir for one. Nil is cgroups.Noop:
	// pods then get no cgroup and the stages skip.
	Next cgroups.Manager

	// EnsureFunc is Ensure.
	EnsureFunc func(ctx context.Context, pod *corev1.Pod) (parent string, err error)
	// UpdateFunc is Update.
	UpdateFunc func(ctx context.Context, pod *corev1.Pod) error
	// ReduceCPUFunc is ReduceCPU.
	ReduceCPUFunc func(ctx context.Context, uid types.UID) error
	// RemoveFunc is Remove.
	RemoveFunc func(ctx context.Context, uid types.UID) error
	// ListFunc is List.
	ListFunc func(ctx context.Context) ([]types.UID, error)
	// RefreshTiersFunc is RefreshTiers.
	RefreshTiersFunc func(ctx context.Context, pods []*corev1.Pod) error
}

var _ cgroups.Manager = (*Fake)(nil)

func (f *Fake) next() cgroups.Manager {
	if f.Next == nil {
		return cgroups.Noop{}
	}
	return f.Next
}

// Ensure implements cgroups.Manager.
func (f *Fake) Ensure(ctx context.Context, pod *corev1.Pod) (parent string, err error) {
	if f.EnsureFunc != nil {
		return f.EnsureFunc(ctx, pod)
	}
	return f.next().Ensure(ctx, pod)
}

// Update implements cgroups.Manager.
func (f *Fake) Update(ctx context.Context, pod *corev1.Pod) error {
	if f.UpdateFunc != nil {
		return f.UpdateFunc(ctx, pod)
	}
	return f.next().Update(ctx, pod)
}

// ReduceCPU implements cgroups.Manager.
func (f *Fake) ReduceCPU(ctx context.Context, uid types.UID) error {
	if f.ReduceCPUFunc != nil {
		return f.ReduceCPUFunc(ctx, uid)
	}
	return f.next().ReduceCPU(ctx, uid)
}

// Remove implements cgroups.Manager.
func (f *Fake) Remove(ctx context.Context, uid types.UID) error {
	if f.RemoveFunc != nil {
		return f.RemoveFunc(ctx, uid)
	}
	return f.next().Remove(ctx, uid)
}

// List implements cgroups.Manager.
func (f *Fake) List(ctx context.Context) ([]types.UID, error) {
	if f.ListFunc != nil {
		return f.ListFunc(ctx)
	}
	return f.next().List(ctx)
}

// RefreshTiers implements cgroups.Manager.
func (f *Fake) RefreshTiers(ctx context.Context, pods []*corev1.Pod) error {
	if f.RefreshTiersFunc != nil {
		return f.RefreshTiersFunc(ctx, pods)
	}
	return f.next().RefreshTiers(ctx, pods)
}
