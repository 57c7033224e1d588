package config

import (
	"fmt"
	"strings"

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
	c, node := in.Container, in.Node.orZero()
	if in.RestartCount < 0 {
		return nil, inContainer(in.Pod, c.Name, fmt.Errorf("restart count %d is negative", in.RestartCount))
	}
	security, err := containerSecurity(&in, node)
	if err != nil {
		return nil, inContainer(in.Pod, c.Name, err)
	}
	annotations, err := containerAnnotations(&in)
	if err != nil {
		return nil, inContainer(in.Pod, c.Name, err)
	}
	stop, err := stopSignal(c)
	if err != nil {
		return nil, inContainer(in.Pod, c.Name, err)
	}
	lookup := envLookup(in.Env)
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: uint32(in.RestartCount)},
		Image:       &runtimeapi.ImageSpec{Image: in.Image.Ref, UserSpecifiedImage: c.Image},
		Command:     expandAll(c.Command, lookup),
		Args:        expandAll(c.Args, lookup),
		WorkingDir:  c.WorkingDir,
		Envs:        in.Env,
		Mounts:      in.Mounts,
		Devices:     in.Devices,
		CDIDevices:  cdiDevices(c.Name, in.CDIDevices),
		Labels:      containerLabels(in.Pod, c),
		Annotations: annotations,
		LogPath:     LogPath(c.Name, in.RestartCount),
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  stop,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(node, in.Pod, c, in.ExclusiveCPUs),
			SecurityContext: security,
		},
	}, nil
}

// stopSignal returns the signal that stops the container; the zero value is
// the image's own.
func stopSignal(c *corev1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil || *c.Lifecycle.StopSignal == "" {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	// CRI's names are the API's with a prefix and without its sign: SIGRTMIN+1
	// is SIGNAL_SIGRTMINPLUS1.
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	v, ok := runtimeapi.Signal_value["SIGNAL_"+name]
	if !ok {
		return 0, fmt.Errorf("lifecycle.stopSignal %q is unknown", *c.Lifecycle.StopSignal)
	}
	return runtimeapi.Signal(v), nil
}

// Ephemeral returns an ephemeral container as a plain one. The two have the
// same fields but for targetContainerName.
func Ephemeral(c *corev1.EphemeralContainer) *corev1.Container {
	p := corev1.Container(c.EphemeralContainerCommon)
	return &p
}
