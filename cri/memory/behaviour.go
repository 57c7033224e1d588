package memory

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Behaviour is what a container does. The zero value runs until it is stopped.
type Behaviour struct {
	// Exits makes the container end by itself, RunFor after its start. A positive RunFor implies it.
	Exits bool
	// RunFor is how long the container runs; zero with Exits: it has ended when StartContainer returns.
	RunFor time.Duration
	// ExitCode is the code of that end.
	ExitCode int32
	// Reason is the status reason of that end. Default: Completed for code 0, else Error.
	Reason string
	// Message is the status message of that end.
	Message string

	// CreateError makes CreateContainer fail.
	CreateError error
	// StartError makes StartContainer fail; the container is then exited with 128 and reason StartError.
	StartError error
	// StartDelay is how long StartContainer takes.
	StartDelay time.Duration

	// IgnoreTERM makes the container survive the stop signal; it ends with 137 when the grace is over.
	IgnoreTERM bool
	// TermDelay is how long the container takes to end after the stop signal.
	TermDelay time.Duration
	// TermExitCode is its exit code then. Default: 143.
	TermExitCode *int32
	// Unkillable makes the container survive SIGKILL too, as a process that hangs in the kernel does. Calls
	// that stop it wait until their context ends. Runtime.Exit ends it.
	Unkillable bool

	// Log and LogStderr are lines that the container writes when it starts.
	Log, LogStderr []string
	// TerminationMessage is written to the termination message file when the container ends by itself.
	TerminationMessage string

	// Exec answers ExecSync. It may not change the Runtime. Default: exit code 0 without output.
	Exec func(ctx context.Context, cmd []string) ExecResult
	// Usage is what the container's statistics report while it runs.
	Usage Usage
}

// ExecResult is the end of a command that ExecSync ran.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
	// Duration is how long the command takes. Default: none.
	Duration time.Duration
	// Err fails the call itself.
	Err error
}

// Usage is what a container uses, for its statistics.
type Usage struct {
	MemoryBytes  uint64 // working set
	CPUNanoCores uint64
	DiskBytes    uint64 // writable layer
}

// Container is what a Runtime tells about one of its containers. It is a copy.
type Container struct {
	ID        string
	SandboxID string
	// Name and Attempt are those of the container's metadata.
	Name    string
	Attempt uint32
	// PodName, PodNamespace, PodUID are those of its sandbox's.
	PodName, PodNamespace, PodUID string
	// Image is the image as the container's configuration names it.
	Image string
	State runtimeapi.ContainerState
	// ExitCode, Reason and FinishedAt are meaningful once the container has exited.
	ExitCode              int32
	Reason                string
	CreatedAt, FinishedAt time.Time
	// Config is the container's configuration. Read it only.
	Config *runtimeapi.ContainerConfig
}

// Rule gives the behaviour of the containers that it knows.
type Rule func(Container) (b Behaviour, ok bool)

// Named gives b to every container of that name.
func Named(name string, b Behaviour) Rule {
	return func(c Container) (Behaviour, bool) { return b, c.Name == name }
}

// OfImage gives b to every container whose configuration names that image, or its ID.
func OfImage(image string, b Behaviour) Rule {
	want, err := normalize(image)
	return func(c Container) (Behaviour, bool) {
		if c.Image == image {
			return b, true
		}
		got, gotErr := normalize(c.Image)
		return b, err == nil && gotErr == nil && got.String() == want.String()
	}
}

// InPod gives b to the container of that name in the pod of that name.
func InPod(pod, name string, b Behaviour) Rule {
	return func(c Container) (Behaviour, bool) { return b, c.PodName == pod && c.Name == name }
}

// Exits makes the containers of that name end with code as soon as they start, as an init container does.
func Exits(name string, code int32) Rule {
	return Named(name, Behaviour{Exits: true, ExitCode: code})
}

// ExitsAfter makes the containers of that name end with code when they have run for d.
func ExitsAfter(name string, d time.Duration, code int32) Rule {
	return Named(name, Behaviour{Exits: true, RunFor: d, ExitCode: code})
}

// FailsFirst makes the first n attempts of the containers of that name end with code at once. Later attempts
// behave as then.
func FailsFirst(name string, n uint32, code int32, then Behaviour) Rule {
	return func(c Container) (Behaviour, bool) {
		if c.Name == name && c.Attempt < n {
			return Behaviour{Exits: true, ExitCode: code}, true
		}
		return then, c.Name == name
	}
}
