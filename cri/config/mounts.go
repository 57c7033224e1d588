package config

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// MountsInput is what a container's mounts are made of.
type MountsInput struct {
	// Pod and Container are required.
	Pod       *corev1.Pod
	Container *corev1.Container
	// Volumes are the pod's volumes; nil makes every volumeMount an error.
	Volumes podsync.Volumes
	// Dirs are the pod's directories; an empty EtcHosts mounts no hosts file.
	Dirs podsync.Dirs
	// Env is the container's environment, for subPathExpr.
	Env []*runtimeapi.KeyValue
	// PodIPs are the pod's addresses; a pod of its own network without any gets
	// no hosts file.
	PodIPs []string
	// TerminationFile is the file on the host that becomes the container's
	// terminationMessagePath, as TerminationFile names it; "" mounts none.
	TerminationFile string
	// RecursiveReadOnly tells that the pod's runtime handler can do recursive
	// read-only mounts.
	RecursiveReadOnly bool
	// Images are the image volumes that are present on the node, by volume name.
	// An image volume that is not there is an error.
	Images map[string]*runtimeapi.ImageSpec
	// UserNamespace is the pod's mapping, for id-mapped mounts; nil for none.
	UserNamespace *runtimeapi.UserNamespace
	// SELinux tells that SELinux is enabled, so that files made for the pod are
	// relabelled.
	SELinux bool
	// Extra are a site's additions. One on the path of a volumeMount is an error.
	Extra []podsync.ExtraMount
}

// Mounts returns the mounts of a container: its volumeMounts in the order of
// the spec, the managed hosts file, the termination message file, a site's
// additions. Errors carry the reason CreateContainerConfigError and show no
// path of the host.
func Mounts(ctx context.Context, in MountsInput) ([]*runtimeapi.Mount, error) {
	return nil, nil
}

// WantsHostsFile tells whether the container gets the managed /etc/hosts: not
// when it mounts something there itself, and not while a pod of its own network
// has no address.
func WantsHostsFile(pod *corev1.Pod, c *corev1.Container, podIPs []string) bool {
	return false
}
