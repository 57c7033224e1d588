package objects

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Chain is several podsync.Objects as one: the first that has an object gives it.
// One that cannot be read is an error, not a reason to ask the next.
type Chain []podsync.Objects

var _ podsync.Objects = Chain(nil)

// Secret implements podsync.Objects.
func (c Chain) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return first(c, "secret", namespace, name, func(o podsync.Objects) (*corev1.Secret, error) { return o.Secret(ctx, namespace, name) })
}

// ConfigMap implements podsync.Objects.
func (c Chain) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return first(c, "config map", namespace, name, func(o podsync.Objects) (*corev1.ConfigMap, error) { return o.ConfigMap(ctx, namespace, name) })
}

func first[T any](c Chain, kind, namespace, name string, get func(podsync.Objects) (*T, error)) (*T, error) {
	err := fmt.Errorf("%s %q: %w", kind, namespace+"/"+name, podsync.ErrNotFound)
	for _, o := range c {
		var v *T
		if v, err = get(o); err == nil || !errors.Is(err, podsync.ErrNotFound) {
			return v, err
		}
	}
	return nil, err
}
