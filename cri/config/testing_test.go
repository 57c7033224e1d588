package config_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podsync/sdk/podsync"
)

const testUID = "0f4c5ed7-64b0-4b8c-9d4c-2b8f3c6f8a11"

// newPod makes a pod with one container "app", then lets edit change it.
func newPod(edit ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: testUID,
			Labels: map[string]string{"tier": "front"}, Annotations: map[string]string{"note": "hello"},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.local/app:1",
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func app(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }

func ptr[T any](v T) *T { return &v }

func quantities(kv ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		l[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return l
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

// objects is a podsync.Objects of maps; fail is returned for the name "broken".
type objects struct {
	secrets    map[string]map[string]string
	configMaps map[string]map[string]string
	calls      int
}

var errBroken = errors.New("connection refused")

func (o *objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	o.calls++
	if name == "broken" {
		return nil, errBroken
	}
	m, ok := o.secrets[name]
	if !ok {
		return nil, fmt.Errorf("secret %s/%s: %w", namespace, name, podsync.ErrNotFound)
	}
	s := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range m {
		s.Data[k] = []byte(v)
	}
	return s, nil
}

func (o *objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	o.calls++
	if name == "broken" {
		return nil, errBroken
	}
	m, ok := o.configMaps[name]
	if !ok {
		return nil, fmt.Errorf("config map %s/%s: %w", namespace, name, podsync.ErrNotFound)
	}
	return &corev1.ConfigMap{Data: m}, nil
}

// volumes is a podsync.Volumes that puts every volume below /pods.
type volumes struct {
	readOnly map[string]bool
	fail     error
}

func (v volumes) HostPath(_ context.Context, container string, index int, m corev1.VolumeMount, subPath string) (string, error) {
	if v.fail != nil {
		return "", v.fail
	}
	p := "/pods/" + m.Name
	if subPath != "" {
		p += fmt.Sprintf("/subpaths/%s/%d/%s", container, index, subPath)
	}
	return p, nil
}
func (v volumes) ReadOnly(name string) bool   { return v.readOnly[name] }
func (v volumes) SupplementalGroups() []int64 { return []int64{500} }

func kv(pairs ...string) []*runtimeapi.KeyValue {
	var list []*runtimeapi.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &runtimeapi.KeyValue{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return list
}
