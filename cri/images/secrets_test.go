package images_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/podsync"
)

type objects map[string]*corev1.Secret

func (o objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("get: %w", ctx.Err())
	}
	if name == "broken" {
		return nil, errors.New("connection refused")
	}
	if s := o[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%s/%s: %w", namespace, name, podsync.ErrNotFound)
}

func (objects) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, podsync.ErrNotFound
}

type recorder struct{ events }

func (r *recorder) Event(_ *corev1.Pod, eventType, reason, message string) {
	r.add(eventType, reason, "%s", message)
}

func podNaming(names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}}
	for _, n := range names {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: n})
	}
	return p
}

func TestCase_IMG_06_MissingPullSecrets(t *testing.T) {
	s1, s2 := configJSON("s1", logins()), configJSON("s2", logins())
	for _, tt := range []struct {
		name    string
		objects podsync.Objects
		names   []string
		found   []*corev1.Secret
		missing []string
		events  []string
	}{
		{"found, in order", objects{"s1": s1, "s2": s2}, []string{"s2", "", "s1"}, []*corev1.Secret{s2, s1}, nil, nil},
		{"missing", objects{"s1": s1}, []string{"s0", "s1", "s3"}, []*corev1.Secret{s1}, []string{"s0", "s3"}, []string{
			"Warning FailedToRetrieveImagePullSecret image pull secrets do not exist: s0, s3; pulling may fail without them",
		}},
		{"unreadable", objects{"s1": s1}, []string{"broken", "s1", "s0"}, []*corev1.Secret{s1}, []string{"s0", "broken"}, []string{
			"Warning FailedToRetrieveImagePullSecret image pull secrets do not exist: s0; pulling may fail without them",
			"Warning FailedToRetrieveImagePullSecret image pull secrets cannot be read: broken: connection refused; pulling may fail without them",
		}},
		{"no objects", nil, []string{"s1"}, nil, []string{"s1"}, []string{
			"Warning FailedToRetrieveImagePullSecret image pull secrets do not exist: s1; pulling may fail without them",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r recorder
			s := podsync.NewSync(podNaming(tt.names...), podsync.WithEvents(&r))
			if out := images.PullSecrets(tt.objects).Run(t.Context(), s); out.Kind() != podsync.KindContinue {
				t.Fatal(out)
			}
			found, _ := podsync.PullSecrets.Get(s)
			missing, _ := podsync.MissingPullSecrets.Get(s)
			if d := cmp.Diff(tt.found, found) + cmp.Diff(tt.missing, missing) + cmp.Diff(tt.events, r.take()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPullSecretsOfAPodWithNone(t *testing.T) {
	st, s := images.PullSecrets(objects{}), podsync.NewSync(podNaming())
	if st.Name() != podsync.StagePullSecrets {
		t.Error(st.Name())
	}
	ctx := t.Context()
	if out := st.Run(ctx, s); out.Kind() != podsync.KindSkip || out.Reason() != "NoneNamed" {
		t.Error(out)
	}
	if n := testing.AllocsPerRun(100, func() { st.Run(ctx, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPullSecretsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var r recorder
	out := images.PullSecrets(objects{}).Run(ctx, podsync.NewSync(podNaming("s1"), podsync.WithEvents(&r)))
	if out.Kind() != podsync.KindCanceled || len(r.take()) > 0 {
		t.Error(out)
	}
}

func TestPullSecretsDeclare(t *testing.T) {
	d := images.PullSecrets(nil).(podsync.Declarer).Declare()
	var names []string
	for _, k := range d.Provides {
		names = append(names, k.Name())
	}
	if strings.Join(names, " ") != "PullSecrets MissingPullSecrets" {
		t.Error(names)
	}
}
