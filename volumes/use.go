package volumes

import corev1 "k8s.io/api/core/v1"

// used returns the names of the volumes that a container of the pod uses, of
// whatever kind, through a mount, a device or, unlike the kubelet, only a
// fileKeyRef of its environment.
func used(pod *corev1.Pod) map[string]bool {
	names := make(map[string]bool, len(pod.Spec.Volumes))
	add := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice, env []corev1.EnvVar) {
		for i := range mounts {
			names[mounts[i].Name] = true
		}
		for i := range devices {
			names[devices[i].Name] = true
		}
		for i := range env {
			if f := env[i].ValueFrom; f != nil && f.FileKeyRef != nil {
				names[f.FileKeyRef.VolumeName] = true
			}
		}
	}
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			add(cs[i].VolumeMounts, cs[i].VolumeDevices, cs[i].Env)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		add(c.VolumeMounts, c.VolumeDevices, c.Env)
	}
	return names
}
