package podspec_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync/podspec"
)

func static(p *corev1.Pod) *corev1.Pod {
	p.UID, p.Namespace = "", ""
	return p
}

func TestApplyStaticDefaults(t *testing.T) {
	p := static(minimal())
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "other"}}
	p.ResourceVersion = "7"
	p.Spec.NodeName = "other"
	p.Annotations = map[string]string{podspec.AnnotationMirror: "x", podspec.AnnotationSeen: "x", podspec.AnnotationSource: "api", "keep": "me"}
	if err := podspec.ApplyStaticDefaults(p, podspec.Static{Node: "Edge-1", SourceName: "file", Origin: "/m/web.yaml", File: true}); err != nil {
		t.Fatal(err)
	}
	want := minimal()
	want.Name, want.Namespace, want.UID = "web-edge-1", "default", p.UID
	want.Annotations = map[string]string{podspec.AnnotationSource: "file", podspec.AnnotationHash: string(p.UID), "keep": "me"}
	want.Spec.NodeName = "edge-1"
	want.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute"}}
	want.Status.Phase = corev1.PodPending
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if podspec.CheckUID(string(p.UID)) != "" {
		t.Errorf("want a valid UID, got %q", p.UID)
	}
}

func TestApplyStaticDefaults_tolerationIsNotDoubled(t *testing.T) {
	p := static(minimal())
	p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(5))}, {Key: "a", Operator: "Exists"}}
	if err := podspec.ApplyStaticDefaults(p, podspec.Static{Node: "n", File: true}); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute"}, {Key: "a", Operator: "Exists"}}
	if d := cmp.Diff(want, p.Spec.Tolerations); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	q := static(minimal())
	if err := podspec.ApplyStaticDefaults(q, podspec.Static{Node: "n", SourceName: "http"}); err != nil {
		t.Fatal(err)
	}
	if len(q.Spec.Tolerations) != 0 {
		t.Errorf("want no toleration for a pod from a URL, got %v", q.Spec.Tolerations)
	}
}

func TestCase_CFG_08_StaticUIDIsStableAndUnique(t *testing.T) {
	parse := func(s string) *corev1.Pod {
		var p corev1.Pod
		if err := json.Unmarshal([]byte(s), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	const text = `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1000m"}}}]}}`
	base := podspec.StaticUID(parse(text), "node", "/m/a.yaml")
	for _, tt := range []struct {
		name, text, node, origin string
		same                     bool
	}{
		{"once more", text, "node", "/m/a.yaml", true},
		{"white space and key order", `{ "spec": {"containers":[{"image":"i", "name":"c","resources":{"limits":{"cpu":"1000m"}}}]}, "metadata":{"labels":{"y":"2","x":"1"},"name":"a"}}`, "node", "/m/a.yaml", true},
		{"status and creation time", `{"metadata":{"creationTimestamp":null,"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1000m"}}}]},"status":{"phase":"Failed"}}`, "node", "/m/a.yaml", true},
		{"another file", text, "node", "/m/b.yaml", false},
		{"another node", text, "node2", "/m/a.yaml", false},
		{"node and file run together", text, "node/m", "/a.yaml", false},
		{"other amounts", `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"500m"}}}]}}`, "node", "/m/a.yaml", true},
		{"an amount more, the same class", `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"},"requests":{"memory":"1Mi"}}}]}}`, "node", "/m/a.yaml", true},
		{"another class", `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1Mi"}}}]}}`, "node", "/m/a.yaml", false},
		{"another resource", `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","example.com/x":"1"}}}]}}`, "node", "/m/a.yaml", false},
		{"another image", `{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"containers":[{"name":"c","image":"j"}]}}`, "node", "/m/a.yaml", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := podspec.StaticUID(parse(tt.text), tt.node, tt.origin)
			if (got == base) != tt.same {
				t.Errorf("same UID: want %v, got %s and %s", tt.same, base, got)
			}
		})
	}
	t.Run("explicit UID is kept, the hash follows the content", func(t *testing.T) {
		a, b := minimal(), minimal()
		b.Spec.Containers[0].Image = "other"
		for _, p := range []*corev1.Pod{a, b} {
			if err := podspec.ApplyStaticDefaults(p, podspec.Static{Node: "n", Origin: "/x"}); err != nil {
				t.Fatal(err)
			}
			if p.UID != minimal().UID {
				t.Errorf("want UID %s, got %s", minimal().UID, p.UID)
			}
		}
		if a.Annotations[podspec.AnnotationHash] == b.Annotations[podspec.AnnotationHash] {
			t.Error("want another hash for another image")
		}
	})
	t.Run("the UID of a release is that of the next", func(t *testing.T) {
		const want = types.UID("a48f557214fe9c18acbe7869fd7c3624")
		if base != want {
			t.Errorf("every static pod of every node would be replaced: want %s, got %s", want, base)
		}
	})
}

func TestCase_SEC_06_StaticPodsThatNeedAControlPlane(t *testing.T) {
	vol := func(s corev1.VolumeSource) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: s}} }
	}
	name := corev1.LocalObjectReference{Name: "x"}
	for _, tt := range []struct {
		name   string
		change func(p *corev1.Pod)
		field  string
	}{
		{"resourceClaims", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a"}} }, "spec.resourceClaims"},
		{"clusterTrustBundle", vol(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}), "spec.volumes[0].projected.sources[0].clusterTrustBundle"},
		{"podCertificate", vol(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{PodCertificate: &corev1.PodCertificateProjection{}}}}}), "spec.volumes[0].projected.sources[0].podCertificate"},
		{"ephemeral volume", vol(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "spec.volumes[0].ephemeral"},
		{"secret volume", vol(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}), ""},
		{"configMap envFrom", func(p *corev1.Pod) {
			c0(p).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name}}}
		}, ""},
		{"serviceAccountName", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "builder" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := static(minimal())
			tt.change(p)
			err := podspec.ApplyStaticDefaults(p, podspec.Static{Node: "n", File: true})
			var inv *podspec.InvalidError
			switch {
			case tt.field == "" && err != nil:
				t.Errorf("want it accepted, got %v", err)
			case tt.field != "" && (!errors.As(err, &inv) || inv.Errs[0].Field != tt.field):
				t.Errorf("want it refused for %s, got %v", tt.field, err)
			}
		})
	}
}
