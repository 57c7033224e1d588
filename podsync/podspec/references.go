package podspec

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ObjectRef names an object of the pod's namespace that the pod refers to.
type ObjectRef struct {
	// Kind is "Secret" or "ConfigMap".
	Kind string
	// Namespace is the pod's.
	Namespace string
	// Name is the object's.
	Name string
}

// References returns the secrets and config maps that a pod needs, whether
// optional or not, each once, by kind and name: those of pull secrets,
// environment and volumes. References with no name are left out. It is a pure
// function.
func References(pod *corev1.Pod) []ObjectRef {
	var out []ObjectRef
	add := func(kind, name string) {
		if name != "" {
			out = append(out, ObjectRef{kind, pod.Namespace, name})
		}
	}
	secret := func(name string) { add("Secret", name) }
	for _, s := range pod.Spec.ImagePullSecrets {
		secret(s.Name)
	}
	environment := func(from []corev1.EnvFromSource, env []corev1.EnvVar) {
		for _, f := range from {
			if f.SecretRef != nil {
				secret(f.SecretRef.Name)
			}
			if f.ConfigMapRef != nil {
				add("ConfigMap", f.ConfigMapRef.Name)
			}
		}
		for _, e := range env {
			if e.ValueFrom == nil {
				continue
			}
			if r := e.ValueFrom.SecretKeyRef; r != nil {
				secret(r.Name)
			}
			if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
				add("ConfigMap", r.Name)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		environment(pod.Spec.InitContainers[i].EnvFrom, pod.Spec.InitContainers[i].Env)
	}
	for i := range pod.Spec.Containers {
		environment(pod.Spec.Containers[i].EnvFrom, pod.Spec.Containers[i].Env)
	}
	for i := range pod.Spec.EphemeralContainers {
		environment(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	for i := range pod.Spec.Volumes {
		volumeReferences(&pod.Spec.Volumes[i], secret, func(name string) { add("ConfigMap", name) })
	}
	slices.SortFunc(out, func(a, b ObjectRef) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

func volumeReferences(v *corev1.Volume, secret, configMap func(name string)) {
	local := func(r *corev1.LocalObjectReference) {
		if r != nil {
			secret(r.Name)
		}
	}
	switch {
	case v.Secret != nil:
		secret(v.Secret.SecretName)
	case v.ConfigMap != nil:
		configMap(v.ConfigMap.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				secret(s.Secret.Name)
			}
			if s.ConfigMap != nil {
				configMap(s.ConfigMap.Name)
			}
		}
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.AzureFile != nil:
		secret(v.AzureFile.SecretName)
	}
}
