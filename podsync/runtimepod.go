package podsync

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RuntimePod is what the container runtime holds of one pod, as last observed.
// It is immutable once handed out: whoever learns something newer makes a new one.
type RuntimePod struct {
	// UID, Name and Namespace are those of the pod, from the runtime's labels.
	UID             types.UID
	Name, Namespace string
	// Sandboxes are the pod's sandboxes, newest first.
	Sandboxes []*RuntimeSandbox
	// Containers are all instances of all containers, newest first.
	Containers []*RuntimeContainer
	// IPs are the addresses of the newest ready sandbox, primary first.
	IPs []string
	// Waiting says why a container that should run does not, by container name:
	// ImagePullBackOff, CrashLoopBackOff and the like, from the last attempt.
	Waiting map[string]WaitingReason
	// Probes holds the verdict of the probes by container name. A container with
	// no entry is taken as its running state says.
	Probes map[string]ProbeResult
	// ResizeError says why the resources that the pod was given could not be
	// brought about; "" when nothing failed.
	ResizeError string
	// ObservedAt is when the runtime was asked.
	ObservedAt time.Time
}

// WaitingReason says why a container is not running.
type WaitingReason struct {
	// Reason is an API reason such as ErrImagePull; Message is for people.
	Reason, Message string
}

// ProbeResult is what the probes of one container instance say.
type ProbeResult struct {
	// ContainerID is the instance meant.
	ContainerID string
	// Started is false while a startup probe has not succeeded.
	Started bool
	// Ready is false while a readiness probe has not succeeded.
	Ready bool
}

// RuntimeSandbox is one sandbox of a pod in the runtime.
type RuntimeSandbox struct {
	// ID is the runtime's id, Attempt the number of the sandbox among the pod's.
	ID      string
	Attempt uint32
	// Ready tells whether it runs.
	Ready bool
	// CreatedAt is when it was made.
	CreatedAt time.Time
	// HostNetwork tells whether it is on the host's network.
	HostNetwork bool
	// NetworkKnown tells whether the runtime said anything of its network; IPs
	// are then its valid addresses, primary first.
	NetworkKnown bool
	IPs          []string
	// Handler is the runtime handler, "" for the default one.
	Handler string
	// Labels and Annotations are the runtime's.
	Labels, Annotations map[string]string
	// Actuated are the pod-level resources that the sandbox was last given; nil
	// when that is not known.
	Actuated *corev1.ResourceRequirements
}

// ContainerState is the state of a container instance, numbered as in CRI.
type ContainerState uint8

// The states of a container instance.
const (
	// ContainerCreated: made, not started.
	ContainerCreated ContainerState = iota
	// ContainerRunning: started and not ended.
	ContainerRunning
	// ContainerExited: ended.
	ContainerExited
	// ContainerUnknown: the runtime lost track of it; it may be running.
	ContainerUnknown
)

// String returns the state as a word.
func (s ContainerState) String() string {
	switch s {
	case ContainerCreated:
		return "created"
	case ContainerRunning:
		return "running"
	case ContainerExited:
		return "exited"
	default:
		return "unknown"
	}
}

// RuntimeResources are the limits that an instance has, zero for none.
type RuntimeResources struct {
	// CPUShares is cgroup v1's relative weight; CPUQuota and CPUPeriod are in
	// microseconds; MemoryLimit is in bytes.
	CPUShares, CPUQuota, CPUPeriod, MemoryLimit int64
}

// RuntimeUser is the identity that an instance's first process has.
type RuntimeUser struct {
	UID, GID           int64
	SupplementalGroups []int64
}

// RuntimeMount is a mount of an instance.
type RuntimeMount struct {
	ContainerPath, HostPath string
	// ReadOnly, and RecursiveReadOnly for the mounts below it too.
	ReadOnly, RecursiveReadOnly bool
}

// RuntimeContainer is one instance of a container in the runtime.
type RuntimeContainer struct {
	// ID is the runtime's container id, without a scheme.
	ID string
	// Name is the container's name in the pod spec.
	Name string
	// Attempt is the CRI metadata's attempt, equal to RestartCount where both are known.
	Attempt uint32
	// RestartCount is how often the container had been restarted when this
	// instance was made, from its annotation.
	RestartCount int
	// SandboxID is the sandbox the instance was made in.
	SandboxID string
	// State is the instance's state.
	State ContainerState
	// CreatedAt, StartedAt and FinishedAt are zero when they have not happened.
	CreatedAt, StartedAt, FinishedAt time.Time
	// ExitCode, Reason and Message describe an exited container; Message
	// includes the termination message.
	ExitCode        int32
	Reason, Message string
	// Image is the image as the runtime names it, ImageRef its digest reference.
	Image, ImageRef string
	// Hash is the hash of the spec that the instance was made of; HashKnown is
	// false when its annotation is missing or unreadable.
	Hash      uint64
	HashKnown bool
	// Labels and Annotations are the runtime's.
	Labels, Annotations map[string]string
	// Resources are the runtime's, nil when it reports none.
	Resources *RuntimeResources
	// Actuated are the requests and limits that the instance was made with or
	// resized to last, by the agent's own record; nil when that is not known.
	Actuated *corev1.ResourceRequirements
	// User is the effective user, nil when it is not reported.
	User *RuntimeUser
	// LogPath is the instance's log file, Mounts its mounts as reported.
	LogPath string
	Mounts  []RuntimeMount
}

// Running tells whether the instance runs.
func (c *RuntimeContainer) Running() bool {
	return c.State == ContainerRunning
}

// Container returns the newest instance of the named container, nil if there is none.
func (p *RuntimePod) Container(name string) *RuntimeContainer {
	if p == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// running returns the running instance of a container, nil if there is none.
func (p *RuntimePod) running(name string) *RuntimeContainer {
	if p == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.Name == name && c.Running() {
			return c
		}
	}
	return nil
}

// CouldRun tells whether something of the pod may be running: a ready sandbox,
// or a container that is running or in an unknown state.
func (p *RuntimePod) CouldRun() bool { return p.SandboxReady() || p.ContainersCouldRun() }

// SandboxReady tells whether one of the pod's sandboxes is ready.
func (p *RuntimePod) SandboxReady() bool {
	if p == nil {
		return false
	}
	for _, s := range p.Sandboxes {
		if s.Ready {
			return true
		}
	}
	return false
}

// ContainersCouldRun tells whether a container is running or in an unknown state.
func (p *RuntimePod) ContainersCouldRun() bool {
	if p == nil {
		return false
	}
	for _, c := range p.Containers {
		switch c.State {
		case ContainerRunning, ContainerUnknown:
			return true
		default:
		}
	}
	return false
}

// RuntimeView is what the agent itself needs to know of the container runtime.
// Package cri implements it; a nil view is a node without one. Safe for
// concurrent use.
type RuntimeView interface {
	// Observe returns the pod's state, never older than the last change that was
	// made through this process or reported by the runtime. A pod the runtime
	// does not know gives an empty RuntimePod and no error. It may ask the
	// runtime and must give up when ctx ends.
	Observe(ctx context.Context, uid types.UID) (*RuntimePod, error)
	// Pods lists the pods that the runtime holds and that this agent owns,
	// without container details that a list call does not give.
	Pods(ctx context.Context) ([]*RuntimePod, error)
	// Watch calls changed for each pod whose state in the runtime changed, until
	// ctx ends; changed does not block. Losing the runtime is not an end: it
	// reconnects and reports what it missed.
	Watch(ctx context.Context, changed func(types.UID)) error
	// Forget drops what is remembered of a pod that is gone.
	Forget(uid types.UID)
}
