package config

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// Image is an image that is present on the node. images.Image converts to it.
type Image struct {
	// Ref is the runtime's reference to the image.
	Ref string
	// UID is the image's own user when it is numeric, nil when it is not.
	UID *int64
	// Username is the image's own user when it is a name.
	Username string
}

// ContainerInput is what a container's configuration is made of.
type ContainerInput struct {
	// Pod is the pod; required.
	Pod *corev1.Pod
	// Container is one of the pod's regular, init or ephemeral containers;
	// required. Ephemeral makes one of an ephemeral container.
	Container *corev1.Container
	// Node is the node; nil is the zero Node.
	Node *Node
	// RestartCount is the number of instances that the container had before.
	RestartCount int
	// Image is the image, as pulled.
	Image Image
	// Env and Mounts are the results of the functions of those names.
	Env    []*runtimeapi.KeyValue
	Mounts []*runtimeapi.Mount
	// Devices and CDIDevices are given to the container; of the latter only
	// those for this container or for all.
	Devices    []*runtimeapi.Device
	CDIDevices []podsync.ExtraCDIDevice
	// Annotations are a site's additions; only those for this container are
	// used, and they cannot replace the kubelet's own.
	Annotations []podsync.ExtraAnnotation
	// SupplementalGroups are those that the volumes bring along.
	SupplementalGroups []int64
	// UserNamespace is the pod's mapping, as in SandboxInput.
	UserNamespace *runtimeapi.UserNamespace
	// TargetID is the id of the running container whose process namespace an
	// ephemeral container joins; "" for none.
	TargetID string
	// ExclusiveCPUs tells that the container has CPUs of its own, so that no
	// quota is to hold it back.
	ExclusiveCPUs bool
}

// Container returns the configuration of one instance of a container, as the
// kubelet's would be. It fails, with reason CreateContainerConfigError, when
// the container must not be created as specified: runAsNonRoot that cannot be
// verified, a seccomp or AppArmor profile that is missing or leads astray.
func Container(in ContainerInput) (*runtimeapi.ContainerConfig, error) {
	return nil, nil
}

// Ephemeral returns an ephemeral container as a plain one. The two have the
// same fields but for targetContainerName.
func Ephemeral(c *corev1.EphemeralContainer) *corev1.Container {
	p := corev1.Container(c.EphemeralContainerCommon)
	return &p
}

// Hash returns the kubelet's hash of a container: of its name and image alone,
// so that only an image change restarts a running container.
func Hash(c *corev1.Container) uint64 { return 0 }
