package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestReferences(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace = "ns"
	name := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	local := func(n string) *corev1.LocalObjectReference { r := name(n); return &r }
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{name("pull"), name("")}
	env := func(n string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "PLAIN", Value: "x"},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name(n)}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name(n)}}}}
	}
	pod.Spec.InitContainers = []corev1.Container{{Env: env("init")}}
	pod.Spec.Containers = []corev1.Container{{Env: env("main"), EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name("from")}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name("from")}}}}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env("debug")}}}
	pod.Spec.Volumes = []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}},
		{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: name("vol")}}},
		{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: name("proj")}}, {ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name("proj")}}}}}},
		{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("csi")}}},
		{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("flex")}}},
		{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}}},
		{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}}, // twice
	}
	var got []string
	for _, r := range podspec.References(pod) {
		got = append(got, r.Kind+" "+r.Namespace+"/"+r.Name)
	}
	want := []string{
		"ConfigMap ns/debug", "ConfigMap ns/from", "ConfigMap ns/init", "ConfigMap ns/main", "ConfigMap ns/proj", "ConfigMap ns/vol",
		"Secret ns/csi", "Secret ns/debug", "Secret ns/flex", "Secret ns/from", "Secret ns/init", "Secret ns/main", "Secret ns/proj", "Secret ns/pull", "Secret ns/vol",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
