package objects_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/objects"
)

// broken cannot read anything.
type broken struct{}

var errBroken = errors.New("no connection")

func (broken) Secret(context.Context, string, string) (*corev1.Secret, error) { return nil, errBroken }
func (broken) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, errBroken
}

func TestChain(t *testing.T) {
	near, far := &objects.Memory{}, &objects.Memory{}
	must(t, near.Put(secret("both", "from", "near")))
	must(t, far.Put(secret("both", "from", "far"), secret("far", "from", "far")))
	c := objects.Chain{near, far}
	for name, want := range map[string]string{"both": "near", "far": "far"} {
		s, err := c.Secret(t.Context(), "default", name)
		if err != nil || string(s.Data["from"]) != want {
			t.Errorf("secret %s: %v, %v; want it from %s", name, s, err, want)
		}
	}
	if _, err := c.ConfigMap(t.Context(), "default", "none"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("a config map that nobody has: %v", err)
	}
	if _, err := (objects.Chain{near, broken{}, far}).Secret(t.Context(), "default", "far"); !errors.Is(err, errBroken) {
		t.Errorf("one that cannot be read hides that an object may be there: %v", err)
	}
	if s, err := (objects.Chain{near, broken{}}).Secret(t.Context(), "default", "both"); err != nil {
		t.Errorf("one that is not asked must not matter: %v, %v", s, err)
	}
	if _, err := (objects.Chain{}).Secret(t.Context(), "default", "x"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("an empty chain: %v", err)
	}
}
