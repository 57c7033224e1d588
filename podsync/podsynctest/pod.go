package podsynctest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodOption changes a pod that Pod makes.
type PodOption func(*corev1.Pod)

// Pod returns the smallest valid pod: default/web with UID "web-uid" and one
// container "app" of image "busybox:1".
func Pod(opts ...PodOption) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "default", "web", "web-uid"
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "busybox:1"}}
	for _, o := range opts {
		o(p)
	}
	return p
}

// Named sets the pod's name, and its UID to the name with "-uid".
func Named(name string) PodOption {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID(name+"-uid") }
}

// UID sets the pod's UID.
func UID(uid types.UID) PodOption { return func(p *corev1.Pod) { p.UID = uid } }

// Restart sets the pod's restartPolicy.
func Restart(r corev1.RestartPolicy) PodOption {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = r }
}

// Grace sets the pod's terminationGracePeriodSeconds, rounded to seconds.
func Grace(d time.Duration) PodOption {
	return func(p *corev1.Pod) {
		s := int64(d.Round(time.Second) / time.Second)
		p.Spec.TerminationGracePeriodSeconds = &s
	}
}

// HostNetwork puts the pod on the host's network.
func HostNetwork() PodOption { return func(p *corev1.Pod) { p.Spec.HostNetwork = true } }

// Container adds a container, or replaces the first of the same name.
func Container(c corev1.Container) PodOption {
	return func(p *corev1.Pod) { p.Spec.Containers = put(p.Spec.Containers, c) }
}

// Init adds an init container.
func Init(c corev1.Container) PodOption {
	return func(p *corev1.Pod) { p.Spec.InitContainers = put(p.Spec.InitContainers, c) }
}

// Sidecar adds a restartable init container.
func Sidecar(c corev1.Container) PodOption {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return Init(c)
}

func put(cs []corev1.Container, c corev1.Container) []corev1.Container {
	if c.Image == "" {
		c.Image = "busybox:1"
	}
	for i := range cs {
		if cs[i].Name == c.Name {
			cs[i] = c
			return cs
		}
	}
	return append(cs, c)
}

// Volume adds a volume and mounts it at path in every container there is so far.
func Volume(v corev1.Volume, path string) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v)
		m := corev1.VolumeMount{Name: v.Name, MountPath: path}
		for i := range p.Spec.InitContainers {
			p.Spec.InitContainers[i].VolumeMounts = append(p.Spec.InitContainers[i].VolumeMounts, m)
		}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts, m)
		}
	}
}

// Requests sets the first container's requests.
func Requests(r corev1.ResourceList) PodOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = r }
}

// Deleting marks the pod as deleted at that time with that grace.
func Deleting(at time.Time, grace time.Duration) PodOption {
	return func(p *corev1.Pod) {
		t := metaTime(at)
		s := int64(grace / time.Second)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &t, &s
	}
}
