package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// Reasons of waiting containers, of events and of errors: the kubelet's own.
const (
	ReasonCrashLoopBackOff           = "CrashLoopBackOff"
	ReasonCreateContainerConfigError = "CreateContainerConfigError"
	ReasonCreateContainerError       = "CreateContainerError"
	ReasonRunContainerError          = "RunContainerError"
	ReasonPostStartHookError         = "PostStartHookError"

	ReasonCreated                   = "Created"
	ReasonStarted                   = "Started"
	ReasonFailed                    = "Failed"
	ReasonKilling                   = "Killing"
	ReasonBackOff                   = "BackOff"
	ReasonSandboxChanged            = "SandboxChanged"
	ReasonFailedCreatePodSandBox    = "FailedCreatePodSandBox"
	ReasonFailedPodSandBoxStatus    = "FailedPodSandBoxStatus"
	ReasonFailedPostStartHook       = "FailedPostStartHook"
	ReasonFailedPreStopHook         = "FailedPreStopHook"
	ReasonFailedKillPod             = "FailedKillPod"
	ReasonLifecycleHTTPFallback     = "LifecycleHTTPFallback"
	ReasonPodSandboxLost            = "PodSandboxLost"
	ReasonContainersStillRunning    = "ContainersStillRunning"
	ReasonRuntimeStateUnknown       = "RuntimeStateUnknown"
	ReasonDNSConfigForming          = "DNSConfigForming"
	ReasonFailedCreateLogDir        = "FailedCreateLogDirectory"
	ReasonRestartAllContainersEvent = "RestartAllContainers"
)

// RunningError says that containers or sandboxes of a pod that should have
// stopped may still run.
type RunningError struct {
	// Pod is the pod as podsync.Ref writes it.
	Pod string
	// Containers and Sandboxes are what may still run, as "name (id)".
	Containers, Sandboxes []string
}

// Error names what still runs.
func (e *RunningError) Error() string {
	var parts []string
	if len(e.Containers) > 0 {
		parts = append(parts, "containers "+strings.Join(e.Containers, ", "))
	}
	if len(e.Sandboxes) > 0 {
		parts = append(parts, "sandboxes "+strings.Join(e.Sandboxes, ", "))
	}
	return fmt.Sprintf("pod %s: still running after the stop: %s", e.Pod, strings.Join(parts, "; "))
}

// Reason returns ContainersStillRunning.
func (e *RunningError) Reason() string { return ReasonContainersStillRunning }

// notFound tells whether the runtime does not have what was asked about.
func notFound(err error) bool { return err != nil && code(err) == codes.NotFound }

func unimplemented(err error) bool { return err != nil && code(err) == codes.Unimplemented }

// code returns the gRPC code of an error anywhere in the chain.
func code(err error) codes.Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	s, _ := grpcstatus.FromError(err)
	return s.Code()
}

// words returns an error's text without gRPC's prefix: what a person should read.
func words(err error) string {
	if s, ok := grpcstatus.FromError(err); ok && s.Message() != "" {
		return s.Message()
	}
	return err.Error()
}

// plainly wraps an error of the runtime so that its text lacks gRPC's prefix.
func plainly(doing string, err error) error {
	return &callError{text: doing + ": " + words(err), err: err}
}

type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }

// short cuts a runtime's id to what people use.
func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}
