package podsync

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// The state that the SDK's own stages leave for one another.
var (
	// CgroupParent is the pod's cgroup as CRI's cgroup_parent wants it. Written
	// by the cgroup stage, read by the runtime stage.
	CgroupParent = NewKey[string]("CgroupParent")
	// PodDirs are the pod's directories on the host. Written by the dirs stage.
	PodDirs = NewKey[Dirs]("PodDirs")
	// PodVolumes are the pod's mounted volumes. Written by the volumes stage.
	PodVolumes = NewKey[Volumes]("PodVolumes")
	// PullSecrets are the pull secrets found, in the order of the spec. Written
	// by the pull-secrets stage.
	PullSecrets = NewKey[[]*corev1.Secret]("PullSecrets")
	// MissingPullSecrets names those that do not exist. Written by the
	// pull-secrets stage.
	MissingPullSecrets = NewKey[[]string]("MissingPullSecrets")
	// RuntimeActions is what the runtime stage did in this run.
	RuntimeActions = NewKey[Actions]("RuntimeActions")

	// ExtraMounts, ExtraEnv, ExtraAnnotations and ExtraCDIDevices let a site's
	// stages add to the containers that the runtime stage creates in this run.
	ExtraMounts      = NewList[ExtraMount]("ExtraMounts")
	ExtraEnv         = NewList[ExtraEnvVar]("ExtraEnv")
	ExtraAnnotations = NewList[ExtraAnnotation]("ExtraAnnotations")
	ExtraCDIDevices  = NewList[ExtraCDIDevice]("ExtraCDIDevices")
)

// Dirs are a pod's directories on the host, all absolute and below the agent's
// root directory.
type Dirs struct {
	// Root is the pod's own directory, pods/<uid>.
	Root string
	// Volumes and Plugins lie in Root.
	Volumes, Plugins string
	// Containers holds a directory per container, for termination messages.
	Containers string
	// EtcHosts is the file that becomes the containers' /etc/hosts.
	EtcHosts string
}

// Volumes are a pod's volumes once they are mounted.
type Volumes interface {
	// HostPath returns the path on the host that is to be bind-mounted for the
	// container's index-th volumeMount. subPath is the mount's subPath, or its
	// subPathExpr already expanded; it is resolved below the volume without
	// following links out of it. The error's text shows no host path.
	HostPath(ctx context.Context, container string, index int, m corev1.VolumeMount, subPath string) (string, error)
	// ReadOnly tells whether the volume as such can only be read.
	ReadOnly(volume string) bool
	// SupplementalGroups are the group ids that the volumes bring along.
	SupplementalGroups() []int64
}

// VolumeReader is a Volumes that can read a file of a volume, which an
// environment variable's fileKeyRef needs.
type VolumeReader interface {
	// ReadFile reads the file at path below the volume, without following links
	// out of it; what is larger than an environment can be is an error.
	ReadFile(ctx context.Context, volume, path string) ([]byte, error)
}

// ExtraMount is a bind mount added to a container, or to all when Container is "".
type ExtraMount struct {
	Container string
	// ContainerPath and HostPath are absolute. A mount of the pod's own at the
	// same path is an error.
	ContainerPath, HostPath string
	// ReadOnly makes it read-only; SELinuxRelabel lets the runtime relabel it.
	ReadOnly, SELinuxRelabel bool
	// Propagation is that of the mount; "" is None.
	Propagation corev1.MountPropagationMode
}

// ExtraEnvVar is an environment variable added to a container, or to all when
// Container is "". The pod's own env wins over it.
type ExtraEnvVar struct{ Container, Name, Value string }

// ExtraAnnotation is an annotation added to a container in the runtime, or to
// the sandbox when Container is "". It cannot replace the kubelet's own.
type ExtraAnnotation struct{ Container, Name, Value string }

// ExtraCDIDevice is a CDI device (fully qualified, "vendor.com/class=name")
// added to a container, or to all when Container is "".
type ExtraCDIDevice struct{ Container, Name string }

// Actions is what the runtime stage did in one run.
type Actions struct {
	// SandboxCreated tells whether a sandbox was made.
	SandboxCreated bool
	// Started, Killed name the containers.
	Started, Killed []string
	// PullFailed tells whether an image pull was tried and failed in this run.
	PullFailed bool
}

// Any tells whether anything was changed in the runtime.
func (a Actions) Any() bool { return a.SandboxCreated || len(a.Started)+len(a.Killed) > 0 }
