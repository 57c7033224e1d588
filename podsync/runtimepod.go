package podsync

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimePod is what the container runtime holds of one pod, as last observed.
// It is immutable once handed out: whoever learns something newer makes a new one.
type RuntimePod struct {
	// UID, Name and Namespace are those of the pod, from the runtime's labels.
	UID             types.UID
	Name, Namespace string
	// Sandboxes are the pod's sandboxes, newest first. Labels, annotations and
	// network are set.
	Sandboxes []*runtimeapi.PodSandboxStatus
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
	// State is the CRI state.
	State runtimeapi.ContainerState
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
	Resources *runtimeapi.ContainerResources
	// User is the effective user, nil when it is not reported.
	User *runtimeapi.ContainerUser
	// LogPath is the instance's log file, Mounts its mounts as reported.
	LogPath string
	Mounts  []*runtimeapi.Mount
}

// Running tells whether the instance runs.
func (c *RuntimeContainer) Running() bool {
	return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
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

// CouldRun tells whether something of the pod may be running: a ready sandbox,
// or a container that is running or in an unknown state.
func (p *RuntimePod) CouldRun() bool { return p.SandboxReady() || p.ContainersCouldRun() }

// SandboxReady tells whether one of the pod's sandboxes is ready.
func (p *RuntimePod) SandboxReady() bool {
	if p == nil {
		return false
	}
	for _, s := range p.Sandboxes {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
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
		case runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_UNKNOWN:
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
