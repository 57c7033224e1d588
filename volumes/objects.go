package volumes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// noObjects stands in where an agent has no source of objects: none exists.
type noObjects struct{}

func (noObjects) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return nil, fmt.Errorf("this agent has no source of secrets: %w", podsync.ErrNotFound)
}

func (noObjects) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, fmt.Errorf("this agent has no source of config maps: %w", podsync.ErrNotFound)
}

// objectRef is an object that a volume was made of, as it was then.
type objectRef struct {
	secret          bool
	namespace, name string
	// Of the object found. Objects hands out what it caches: an equal pointer is
	// an equal object. (A resource version would not tell: one that stands in a
	// file stays when somebody edits the file.)
	secretObj *corev1.Secret
	mapObj    *corev1.ConfigMap
	// absent: it did not exist.
	absent bool
}

// changed tells whether the object is another one now. One that cannot be read
// counts as changed: setting the volume up again then says why.
func (r *objectRef) changed(ctx context.Context, o podsync.Objects) bool {
	if r.secret {
		now, err := o.Secret(ctx, r.namespace, r.name)
		if err != nil || r.absent {
			return !r.absent || !errors.Is(err, podsync.ErrNotFound)
		}
		return now != r.secretObj
	}
	now, err := o.ConfigMap(ctx, r.namespace, r.name)
	if err != nil || r.absent {
		return !r.absent || !errors.Is(err, podsync.ErrNotFound)
	}
	return now != r.mapObj
}

// recorder notes which objects a plugin read.
type recorder struct {
	podsync.Objects
	mu   sync.Mutex
	refs []objectRef
}

// Secret reads and notes a secret.
func (r *recorder) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s, err := r.Objects.Secret(ctx, namespace, name)
	r.note(objectRef{secret: true, namespace: namespace, name: name, secretObj: s}, err)
	return s, err
}

// ConfigMap reads and notes a config map.
func (r *recorder) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	m, err := r.Objects.ConfigMap(ctx, namespace, name)
	r.note(objectRef{namespace: namespace, name: name, mapObj: m}, err)
	return m, err
}

func (r *recorder) note(ref objectRef, err error) {
	if err != nil && !errors.Is(err, podsync.ErrNotFound) {
		return // the volume fails, or does not depend on it
	}
	ref.absent = err != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs = append(r.refs, ref)
}
