// Package volumestest tests volume plugins, ours and a site's: a conformance
// suite that every plugin must pass, and the fakes it uses. Faults are put into
// the fakes through their function fields.
package volumestest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mount "k8s.io/mount-utils"

	"github.com/podsync/sdk/podsync"
)

// Mounter is a mounter that only remembers. Set the function fields before use;
// one that returns an error makes the call fail with it and do nothing. Safe for
// concurrent use.
type Mounter struct {
	// FakeMounter does the remembering.
	*mount.FakeMounter
	// MountFunc, if set, is called before every mount.
	MountFunc func(source, target, fstype string, options []string) error
	// UnmountFunc, if set, is called before every unmount.
	UnmountFunc func(target string) error
	// ListFunc, if set, is called before every look at the mount table.
	ListFunc func() error
}

var _ mount.Interface = (*Mounter)(nil)

// NewMounter returns a mounter with nothing mounted.
func NewMounter() *Mounter { return &Mounter{FakeMounter: mount.NewFakeMounter(nil)} }

// Mount notes a mount.
func (m *Mounter) Mount(source, target, fstype string, options []string) error {
	if m.MountFunc != nil {
		if err := m.MountFunc(source, target, fstype, options); err != nil {
			return err
		}
	}
	return m.FakeMounter.Mount(source, target, fstype, options)
}

// MountSensitive notes a mount.
func (m *Mounter) MountSensitive(source, target, fstype string, options, _ []string) error {
	return m.Mount(source, target, fstype, options)
}

// Unmount notes that what was mounted at target is no more.
func (m *Mounter) Unmount(target string) error {
	if m.UnmountFunc != nil {
		if err := m.UnmountFunc(target); err != nil {
			return err
		}
	}
	return m.FakeMounter.Unmount(target)
}

// List returns a copy of what is mounted.
func (m *Mounter) List() ([]mount.MountPoint, error) {
	if m.ListFunc != nil {
		if err := m.ListFunc(); err != nil {
			return nil, err
		}
	}
	l, err := m.FakeMounter.List()
	return slices.Clone(l), err
}

// Objects are config maps and secrets in memory. The zero value has none. Safe
// for concurrent use; what it returned must not be changed.
type Objects struct {
	// Func, if set, is called before every read with "secret" or "config map" and
	// "namespace/name"; its error becomes the read's.
	Func func(kind, name string) error

	mu      sync.RWMutex
	secrets map[key]*corev1.Secret
	maps    map[key]*corev1.ConfigMap
}

type key struct{ namespace, name string }

var _ podsync.Objects = (*Objects)(nil)

// Secret returns a secret.
func (o *Objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if err := o.fault("secret", namespace, name); err != nil {
		return nil, err
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if s := o.secrets[key{namespace, name}]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, podsync.ErrNotFound)
}

// ConfigMap returns a config map.
func (o *Objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	if err := o.fault("config map", namespace, name); err != nil {
		return nil, err
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if m := o.maps[key{namespace, name}]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("config map %s/%s: %w", namespace, name, podsync.ErrNotFound)
}

func (o *Objects) fault(kind, namespace, name string) error {
	if o.Func == nil {
		return nil
	}
	return o.Func(kind, namespace+"/"+name)
}

// SetSecret stores or replaces a secret of namespace "default"; nil data removes it.
func (o *Objects) SetSecret(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := key{"default", name}
	if data == nil {
		delete(o.secrets, k)
		return
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name}, Data: map[string][]byte{}}
	for n, v := range data {
		s.Data[n] = []byte(v)
	}
	if o.secrets == nil {
		o.secrets = map[key]*corev1.Secret{}
	}
	o.secrets[k] = s
}

// SetConfigMap stores or replaces a config map of namespace "default"; nil data
// removes it.
func (o *Objects) SetConfigMap(name string, data map[string]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := key{"default", name}
	if data == nil {
		delete(o.maps, k)
		return
	}
	if o.maps == nil {
		o.maps = map[key]*corev1.ConfigMap{}
	}
	o.maps[k] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name}, Data: maps.Clone(data)}
}

// Pod returns a pod default/<uid> with one container that mounts the volumes at
// /<name>.
func Pod(uid types.UID, volumes ...corev1.Volume) *corev1.Pod {
	c := corev1.Container{Name: "main", Image: "example.com/app:1"}
	for _, v := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: string(uid), UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, Volumes: volumes},
	}
}
