package podsync

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// ErrNotFound says that an object does not exist, as against one that could not
// be read: an "optional" reference hides the first, never the second. Match it
// with errors.Is.
var ErrNotFound = errors.New("not found")

// Objects gives the API objects that pods refer to. Implementations keep their
// own caches; what they return is read-only. An object that does not exist is
// an error that matches ErrNotFound. Where objects can change, the
// implementation publishes TopicObjectsChanged on its Bus. Safe for concurrent use.
type Objects interface {
	// Secret returns the secret of that namespace and name.
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// ConfigMap returns the config map of that namespace and name.
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}
