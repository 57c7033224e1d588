package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/podsync/source/manifest"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       string // brief of the pods
		warnings   []string
		errs       string
	}{
		{name: "CFG-04 a", data: manifestOf("a", "i") + "---\n" + manifestOf("b", "j"), want: "a=i b=j"},
		{name: "CFG-04 b", data: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: x}\n---\n" + manifestOf("a", "i"), want: "a=i",
			warnings: []string{"f: document 1 (line 1), ConfigMap x/m: skipped: a ConfigMap is for a directory of objects to read"}},
		{name: "CFG-04 j", data: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\n" + manifestOf("a", "i"), want: "a=i",
			errs: `f: document 1 (line 1), Deployment d: kind: unsupported kind: a Deployment of "apps/v1" makes no pods here; only Pod, PodList and List of v1 do`},
		{name: "CFG-04 k", data: strings.Replace(manifestOf("a", "i"), "v1", "v1beta3", 1),
			errs: `f: document 1 (line 1), Pod a: apiVersion: unsupported kind: pods are read as v1, not as "v1beta3"`},
		{name: "two faults", data: "a: b\n---\n" + manifestOf("a", "i") + "---\n[]\n", want: "a=i",
			errs: "f: document 1 (line 1): kind: unsupported kind: it is missing\nf: document 3 (line 12): is not an object but a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods, warnings, err := source.Decode("f", []byte(tt.data))
			if got := brief(pods); got != tt.want {
				t.Errorf("pods: want %q, got %q", tt.want, got)
			}
			var texts []string
			for _, w := range warnings {
				texts = append(texts, w.Error())
			}
			if d := cmp.Diff(tt.warnings, texts); d != "" {
				t.Errorf("warnings, -want +got:\n%s", d)
			}
			if got := fmt.Sprint(err); tt.errs == "" && err != nil || tt.errs != "" && got != tt.errs {
				t.Errorf("error: want %q, got %q", tt.errs, got)
			}
			var de *source.DecodeError
			if err != nil && (!errors.As(err, &de) || de.Document != 1 || !errors.Is(err, manifest.ErrKind)) {
				t.Errorf("want a DecodeError about document 1, got %v", err)
			}
		})
	}
}

func TestCase_CFG_05_RealManifests(t *testing.T) {
	shared := `apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: null
spec:
  serviceAccount: builder
  containers:
  - &base
    name: c
    image: i
    env: &env
    - {name: A, value: "1"}
  - <<: *base
    name: d
    env: *env
status: {}
`
	pods, warnings, err := source.Decode("f", []byte(strings.ReplaceAll("\ufeff"+shared, "\n", "\r\n")))
	if err != nil || len(warnings) > 0 || len(pods) != 1 {
		t.Fatalf("want one pod, got %d, %v, %v", len(pods), warnings, err)
	}
	p := pods[0]
	must(t, podspec.ApplyStaticDefaults(p, podspec.Static{Node: "n", File: true}))
	podspec.Default(p)
	must(t, podspec.Validate(p))
	if len(p.Spec.Containers) != 2 || p.Spec.Containers[1].Name != "d" || p.Spec.Containers[1].Env[0].Name != "A" || p.Spec.Containers[1].Image != "i" {
		t.Errorf("want two containers that share their environment, got %+v", p.Spec.Containers)
	}
	if p.Spec.ServiceAccountName != "builder" {
		t.Errorf("want service account builder, got %q", p.Spec.ServiceAccountName)
	}
	if p.Status.Phase != corev1.PodPending {
		t.Errorf("want phase Pending, got %q", p.Status.Phase)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(manifestOf("a", "i") + "---\n" + manifestOf("b", "j")))
	f.Add([]byte(`{"apiVersion":"v1","kind":"PodList","items":[{"spec":{"volumes":[{"name":"v"}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, _, _ := source.Decode("f", data)
		for _, p := range pods {
			if podspec.ApplyStaticDefaults(p, podspec.Static{Node: "n", File: true}) != nil {
				continue
			}
			podspec.Default(p)
			_ = podspec.Validate(p)
		}
	})
}
