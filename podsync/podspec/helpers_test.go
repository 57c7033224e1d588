package podspec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	"github.com/podsync/sdk/podsync/podspec"
)

// minimal is a pod with nothing but what a person must write.
func minimal() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "0b1c-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
	}
}

// typical is the pod that people run: an init container, a sidecar, a server
// with probes and environment, four volumes.
func typical() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}}
	}
	p := minimal()
	p.Labels = map[string]string{"app": "web", "app.kubernetes.io/part-of": "shop"}
	p.Annotations = map[string]string{"example.com/owner": "team-a"}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "scratch"},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, Items: []corev1.KeyToPath{{Key: "web.conf", Path: "etc/web.conf"}}}}},
		{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/web"}}},
	}
	p.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "example.com/setup", VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}},
		{Name: "log", Image: "example.com/log:2", RestartPolicy: &always},
	}
	p.Spec.Containers = []corev1.Container{{
		Name: "web", Image: "registry.local:5000/web:1",
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Env: []corev1.EnvVar{
			{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "web"}, Key: "token"}}},
		},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "scratch", MountPath: "/var/cache"},
			{Name: "config", MountPath: "/etc/web", SubPath: "etc"},
			{Name: "tls", MountPath: "/tls", ReadOnly: true},
			{Name: "host", MountPath: "/srv"},
		},
		LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/ready"),
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
	}}
	return p
}

func defaulted(p *corev1.Pod) *corev1.Pod {
	podspec.Default(p)
	return p
}

// anyPod draws a pod with random content in every field there is.
func anyPod() *rapid.Generator[*corev1.Pod] {
	return rapid.Custom(func(t *rapid.T) *corev1.Pod {
		pod := &corev1.Pod{}
		randfill.NewWithSeed(rapid.Int64().Draw(t, "seed")).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewScaledQuantity(c.Int63n(1000)-10, resource.Scale(c.Intn(12)-6))
			},
			func(l *corev1.ResourceList, c randfill.Continue) {
				*l = nil
				for _, n := range []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/gpu"} {
					if c.Bool() {
						continue
					}
					if *l == nil {
						*l = corev1.ResourceList{}
					}
					var q resource.Quantity
					c.Fill(&q)
					(*l)[n] = q
				}
			},
			func(s *string, c randfill.Continue) {
				*s = []string{"", "web", "a/b", "..", "/x", "example.com/app:1", "UPPER", "v1", strings.Repeat("x", 300), "metadata.labels['a']"}[c.Intn(10)]
			},
			func(m *metav1.FieldsV1, _ randfill.Continue) {},
			func(m *metav1.Time, _ randfill.Continue) {},
		).Fill(pod)
		return pod
	})
}

func mustJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		tb.Fatal(fmt.Errorf("encoding %T: %w", v, err))
	}
	return string(b)
}
