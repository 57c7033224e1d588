package config

import (
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// SandboxInput is what a sandbox's configuration is made of.
type SandboxInput struct {
	// Pod is the pod; required. It need not be defaulted.
	Pod *corev1.Pod
	// Node is the node; nil is the zero Node.
	Node *Node
	// Attempt is the number of sandboxes that the pod had before this one.
	Attempt uint32
	// CgroupParent is the pod's cgroup, as podsync.CgroupParent has it; "" leaves
	// the place to the runtime.
	CgroupParent string
	// DNS is the resolver configuration, from DNS; nil leaves it to the runtime.
	DNS *runtimeapi.DNSConfig
	// SupplementalGroups are those that the volumes bring along.
	SupplementalGroups []int64
	// UserNamespace is the pod's mapping when hostUsers is false; nil shares the
	// host's. A pod with hostUsers false and no mapping is an error.
	UserNamespace *runtimeapi.UserNamespace
	// Annotations are a site's additions; those with a Container are left out.
	// They cannot replace the pod's own.
	Annotations []podsync.ExtraAnnotation
}

// Sandbox returns the configuration of a pod's sandbox, as the kubelet's would
// be, but for two things: host ports of init containers and sidecars are mapped
// too, and the namespaces, ids and groups do not depend on a securityContext
// being there.
func Sandbox(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	return nil, nil
}
