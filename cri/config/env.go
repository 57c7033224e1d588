package config

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// EnvInput is what a container's environment is made of.
type EnvInput struct {
	// Pod and Container are required.
	Pod       *corev1.Pod
	Container *corev1.Container
	// Node is the node; nil is the zero Node.
	Node *Node
	// PodIPs are the pod's addresses in this run, primary first.
	PodIPs []string
	// Objects gives config maps and secrets; nil makes every required reference
	// an error.
	Objects podsync.Objects
	// Services are the services whose addresses the container is told, in the
	// pod's namespace and default/kubernetes; nil for none. The pod's
	// enableServiceLinks decides which are used, nil counting as true.
	Services []*corev1.Service
	// ReadVolumeFile reads a file below a volume of the pod, for fileKeyRef;
	// it must not follow links out of the volume and must bound the size. nil
	// makes fileKeyRef an error.
	ReadVolumeFile func(ctx context.Context, volume, path string) ([]byte, error)
	// Extra are a site's additions; the pod's own win over them.
	Extra []podsync.ExtraEnvVar
}

// Env returns the environment of a container. The order is that of the spec:
// envFrom with the keys of each source sorted, env, a site's additions, then
// service addresses sorted by name; a name that is defined twice keeps its
// first place and its last value. The kubelet's order is random.
//
// A reference that cannot be resolved and is not optional is an error whose
// reason is CreateContainerConfigError; so is an object that could not be read,
// even if optional.
func Env(ctx context.Context, in EnvInput) ([]*runtimeapi.KeyValue, error) {
	return nil, nil
}
