package config

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// Identity says which pod, and which container of it, something in the runtime
// belongs to.
type Identity struct {
	UID             types.UID
	Name, Namespace string
	// Container is "" for a sandbox.
	Container string
}

// ParseIdentity reads the labels of a sandbox or container. What lacks a name,
// namespace or UID, or has one that could lead a path or a cgroup name astray,
// is not a pod of ours: an error, and nothing to act on.
func ParseIdentity(labels map[string]string) (Identity, error) { return Identity{}, nil }

// ParseContainer converts an item of a container list. It lacks what only a
// status has: times of start and end, exit code, mounts, log path.
func ParseContainer(c *runtimeapi.Container) (Identity, *podsync.RuntimeContainer, error) {
	return Identity{}, nil, nil
}

// ParseContainerStatus converts a container's status. sandboxID comes from the
// list, since a status does not have it. Annotations that are missing or
// unreadable leave their fields at zero; only the labels must be there.
func ParseContainerStatus(sandboxID string, s *runtimeapi.ContainerStatus) (Identity, *podsync.RuntimeContainer, error) {
	return Identity{}, nil, nil
}

// NewRuntimePod puts together what the runtime holds of one pod: it sorts
// sandboxes and containers newest first (ties by id, so that the order does not
// depend on the input's) and takes the addresses of the newest ready sandbox.
// Invalid addresses are dropped. The slices are not changed.
func NewRuntimePod(id Identity, sandboxes []*runtimeapi.PodSandboxStatus, containers []*podsync.RuntimeContainer, at time.Time) *podsync.RuntimePod {
	return nil
}

// SandboxStatus makes of an item of a sandbox list a status without network.
func SandboxStatus(s *runtimeapi.PodSandbox) *runtimeapi.PodSandboxStatus { return nil }

// RebuildPod makes, of what the runtime holds, a pod that is good enough to be
// stopped: names, graces, containers with ports and preStop hooks, from labels
// and annotations. It is for pods that no source knows any more. Unreadable
// annotations are left out. nil for a nil p.
func RebuildPod(p *podsync.RuntimePod) *corev1.Pod { return nil }
