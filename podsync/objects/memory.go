package objects

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/sdk/podsync"
)

// Memory holds objects that the program puts into it. The zero value is empty
// and ready to use. Objects are copied on their way in; what is got is
// read-only. Safe for concurrent use.
type Memory struct {
	// Bus is told of each change. Nil tells nobody. Set it before use.
	Bus *podsync.Bus

	mu sync.Mutex
	t  table
}

var _ podsync.Objects = (*Memory)(nil)

// Secret returns the secret, or an error that matches podsync.ErrNotFound.
func (m *Memory) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return m.table().secret(namespace, name)
}

// ConfigMap returns the config map, or an error that matches podsync.ErrNotFound.
func (m *Memory) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return m.table().configMap(namespace, name)
}

func (m *Memory) table() table {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.t
}

// Put adds objects or replaces those of the same kind, namespace and name: a
// *corev1.Secret or *corev1.ConfigMap each. An empty namespace is "default" and
// stringData becomes data, as in an API server. An object that is valid in
// itself is always taken: whether an immutable one may change is the caller's
// business. Objects of another type or without a valid name or keys are an
// error; then nothing is put.
func (m *Memory) Put(objs ...runtime.Object) error {
	secrets, configMaps := map[key]*corev1.Secret{}, map[key]*corev1.ConfigMap{}
	for _, o := range objs {
		switch o := o.(type) {
		case *corev1.Secret:
			s := o.DeepCopy()
			finishSecret(s)
			if err := checkSecret(s); err != nil {
				return err
			}
			secrets[key{kindSecret, s.Namespace, s.Name}] = s
		case *corev1.ConfigMap:
			c := o.DeepCopy()
			finishConfigMap(c)
			if err := checkConfigMap(c); err != nil {
				return err
			}
			configMaps[key{kindConfigMap, c.Namespace, c.Name}] = c
		default:
			return fmt.Errorf("putting a %T: only *v1.Secret and *v1.ConfigMap can be", o)
		}
	}
	m.change(func(t *table) {
		maps.Copy(t.secrets, secrets)
		maps.Copy(t.configMaps, configMaps)
	})
	return nil
}

// DeleteSecret removes a secret; it need not be there.
func (m *Memory) DeleteSecret(namespace, name string) {
	m.change(func(t *table) { delete(t.secrets, key{kindSecret, namespace, name}) })
}

// DeleteConfigMap removes a config map; it need not be there.
func (m *Memory) DeleteConfigMap(namespace, name string) {
	m.change(func(t *table) { delete(t.configMaps, key{kindConfigMap, namespace, name}) })
}

func (m *Memory) change(fn func(*table)) {
	m.mu.Lock()
	t := table{maps.Clone(m.t.secrets), maps.Clone(m.t.configMaps)}
	if t.secrets == nil {
		t.secrets = map[key]*corev1.Secret{}
	}
	if t.configMaps == nil {
		t.configMaps = map[key]*corev1.ConfigMap{}
	}
	fn(&t)
	m.t = t
	m.mu.Unlock()
	m.Bus.Publish(podsync.TopicObjectsChanged)
}
