package podsynctest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// FakeObjects is a podsync.Objects made of functions; one that is nil has no
// object. Limits: it keeps nothing and publishes nothing, that is left to the
// functions. For objects that a test only wants to be there objects.Memory is
// shorter. Set the fields before use.
type FakeObjects struct {
	// SecretFunc answers Secret.
	SecretFunc func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// ConfigMapFunc answers ConfigMap.
	ConfigMapFunc func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

var _ podsync.Objects = (*FakeObjects)(nil)

// Secret implements podsync.Objects.
func (f *FakeObjects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if f.SecretFunc == nil {
		return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, podsync.ErrNotFound)
	}
	return f.SecretFunc(ctx, namespace, name)
}

// ConfigMap implements podsync.Objects.
func (f *FakeObjects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	if f.ConfigMapFunc == nil {
		return nil, fmt.Errorf("config map %s/%s: %w", namespace, name, podsync.ErrNotFound)
	}
	return f.ConfigMapFunc(ctx, namespace, name)
}

// FakeRuntimeView is a podsync.RuntimeView made of functions; where they are nil
// the runtime holds nothing and nothing happens in it. Limits: it remembers
// nothing, so that Forget is of no effect by itself. Set the fields before use.
type FakeRuntimeView struct {
	// ObserveFunc answers Observe; nil gives an empty pod.
	ObserveFunc func(ctx context.Context, uid types.UID) (*podsync.RuntimePod, error)
	// PodsFunc answers Pods; nil gives none.
	PodsFunc func(ctx context.Context) ([]*podsync.RuntimePod, error)
	// WatchFunc is Watch; nil waits for the end of the context.
	WatchFunc func(ctx context.Context, changed func(types.UID)) error
	// ForgetFunc is Forget; nil does nothing.
	ForgetFunc func(uid types.UID)
}

var _ podsync.RuntimeView = (*FakeRuntimeView)(nil)

// Observe implements podsync.RuntimeView.
func (f *FakeRuntimeView) Observe(ctx context.Context, uid types.UID) (*podsync.RuntimePod, error) {
	if f.ObserveFunc == nil {
		return &podsync.RuntimePod{UID: uid}, nil
	}
	return f.ObserveFunc(ctx, uid)
}

// Pods implements podsync.RuntimeView.
func (f *FakeRuntimeView) Pods(ctx context.Context) ([]*podsync.RuntimePod, error) {
	if f.PodsFunc == nil {
		return nil, nil
	}
	return f.PodsFunc(ctx)
}

// Watch implements podsync.RuntimeView.
func (f *FakeRuntimeView) Watch(ctx context.Context, changed func(types.UID)) error {
	if f.WatchFunc == nil {
		<-ctx.Done()
		return nil
	}
	return f.WatchFunc(ctx, changed)
}

// Forget implements podsync.RuntimeView.
func (f *FakeRuntimeView) Forget(uid types.UID) {
	if f.ForgetFunc != nil {
		f.ForgetFunc(uid)
	}
}

// FakeReporter is a podsync.Reporter, podsync.Refresher and podsync.StatusKeeper
// made of functions; those that are nil do nothing and know no status. Limits:
// an agent asks whether its Reporter is a Refresher or a StatusKeeper; this one
// always is. Set the fields before use.
type FakeReporter struct {
	// EndedFunc is Ended.
	EndedFunc func(ctx context.Context, s *podsync.Sync, p podsync.Phase, o podsync.Outcome)
	// ForgetFunc is Forget.
	ForgetFunc func(ctx context.Context, uid types.UID)
	// RefreshFunc is Refresh.
	RefreshFunc func(s *podsync.Sync)
	// GetFunc answers Get.
	GetFunc func(uid types.UID) (corev1.PodStatus, bool)
}

var (
	_ podsync.Reporter     = (*FakeReporter)(nil)
	_ podsync.Refresher    = (*FakeReporter)(nil)
	_ podsync.StatusKeeper = (*FakeReporter)(nil)
)

// Ended implements podsync.Reporter.
func (f *FakeReporter) Ended(ctx context.Context, s *podsync.Sync, p podsync.Phase, o podsync.Outcome) {
	if f.EndedFunc != nil {
		f.EndedFunc(ctx, s, p, o)
	}
}

// Forget implements podsync.Reporter.
func (f *FakeReporter) Forget(ctx context.Context, uid types.UID) {
	if f.ForgetFunc != nil {
		f.ForgetFunc(ctx, uid)
	}
}

// Refresh implements podsync.Refresher.
func (f *FakeReporter) Refresh(s *podsync.Sync) {
	if f.RefreshFunc != nil {
		f.RefreshFunc(s)
	}
}

// Get implements podsync.StatusKeeper.
func (f *FakeReporter) Get(uid types.UID) (corev1.PodStatus, bool) {
	if f.GetFunc == nil {
		return corev1.PodStatus{}, false
	}
	return f.GetFunc(uid)
}

// FakeCleaner is a podsync.Cleaner made of functions; where they are nil no pod
// holds anything and every removal succeeds. Limits: a removal does not change
// what PodsFunc says by itself. Set the fields before use.
type FakeCleaner struct {
	// CleanerName is what Name returns. Default "fake".
	CleanerName string
	// PodsFunc answers Pods.
	PodsFunc func(ctx context.Context) ([]types.UID, error)
	// RemoveFunc is Remove.
	RemoveFunc func(ctx context.Context, uid types.UID) error
}

var _ podsync.Cleaner = (*FakeCleaner)(nil)

// Name implements podsync.Cleaner.
func (f *FakeCleaner) Name() string { return named(f.CleanerName) }

// Pods implements podsync.Cleaner.
func (f *FakeCleaner) Pods(ctx context.Context) ([]types.UID, error) {
	if f.PodsFunc == nil {
		return nil, nil
	}
	return f.PodsFunc(ctx)
}

// Remove implements podsync.Cleaner.
func (f *FakeCleaner) Remove(ctx context.Context, uid types.UID) error {
	if f.RemoveFunc == nil {
		return nil
	}
	return f.RemoveFunc(ctx, uid)
}

// FakeSource is a podsync.Source made of a function; when that is nil it hands
// over the empty set once. Limits: unlike source.Memory, which is the source for
// most tests, it has no pods of its own. Set the fields before use.
type FakeSource struct {
	// SourceName is what Name returns. Default "fake".
	SourceName string
	// RunFunc is Run. It decides when the source has been seen: one that never
	// calls set keeps the agent from removing anything.
	RunFunc func(ctx context.Context, set func(pods []*corev1.Pod)) error
}

var _ podsync.Source = (*FakeSource)(nil)

// Name implements podsync.Source.
func (f *FakeSource) Name() string { return named(f.SourceName) }

// Run implements podsync.Source.
func (f *FakeSource) Run(ctx context.Context, set func(pods []*corev1.Pod)) error {
	if f.RunFunc == nil {
		set(nil)
		<-ctx.Done()
		return nil
	}
	return f.RunFunc(ctx, set)
}

func named(s string) string {
	if s == "" {
		return "fake"
	}
	return s
}
