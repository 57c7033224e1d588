package critest

import (
	"context"
	"errors"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Funcs is a runtime of which a test replaces single calls: each call goes to the
// function of its name, and where that is nil to the embedded service, which
// the functions themselves may call too. Set the fields before use.
//
//	f := critest.Wrap(rt, rt)
//	f.StopContainerFunc = func(ctx context.Context, id string, grace int64) error {
//		stops.Add(1)
//		return f.RuntimeService.StopContainer(ctx, id, grace)
//	}
//
// Limits: the calls that the SDK does not make (streaming, statistics,
// checkpoints, …) have no field and are passed on; a call of a service that is
// nil and has no function panics. For faults by the number of the call, lost
// replies and hangs, package cri/memory has an Intercept of its own. It is as
// safe for concurrent use as what it is made of.
type Funcs struct {
	// RuntimeService and ImageManagerService take what is not replaced.
	internalapi.RuntimeService
	internalapi.ImageManagerService

	// StatusFunc replaces Status.
	StatusFunc func(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)

	// RunPodSandboxFunc replaces RunPodSandbox.
	RunPodSandboxFunc func(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error)
	// StopPodSandboxFunc replaces StopPodSandbox.
	StopPodSandboxFunc func(ctx context.Context, id string) error
	// RemovePodSandboxFunc replaces RemovePodSandbox.
	RemovePodSandboxFunc func(ctx context.Context, id string) error
	// PodSandboxStatusFunc replaces PodSandboxStatus.
	PodSandboxStatusFunc func(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	// ListPodSandboxFunc replaces ListPodSandbox.
	ListPodSandboxFunc func(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)

	// CreateContainerFunc replaces CreateContainer.
	CreateContainerFunc func(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// StartContainerFunc replaces StartContainer.
	StartContainerFunc func(ctx context.Context, id string) error
	// StopContainerFunc replaces StopContainer; grace is in seconds.
	StopContainerFunc func(ctx context.Context, id string, grace int64) error
	// RemoveContainerFunc replaces RemoveContainer.
	RemoveContainerFunc func(ctx context.Context, id string) error
	// ContainerStatusFunc replaces ContainerStatus.
	ContainerStatusFunc func(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	// ListContainersFunc replaces ListContainers.
	ListContainersFunc func(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	// UpdateContainerResourcesFunc replaces UpdateContainerResources.
	UpdateContainerResourcesFunc func(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error
	// ExecSyncFunc replaces ExecSync.
	ExecSyncFunc func(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
	// GetContainerEventsFunc replaces GetContainerEvents.
	GetContainerEventsFunc func(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, opened func(runtimeapi.RuntimeService_GetContainerEventsClient)) error

	// ListImagesFunc replaces ListImages.
	ListImagesFunc func(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	// ImageStatusFunc replaces ImageStatus.
	ImageStatusFunc func(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	// PullImageFunc replaces PullImage.
	PullImageFunc func(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error)
	// RemoveImageFunc replaces RemoveImage.
	RemoveImageFunc func(ctx context.Context, image *runtimeapi.ImageSpec) error
}

var (
	_ internalapi.RuntimeService      = (*Funcs)(nil)
	_ internalapi.ImageManagerService = (*Funcs)(nil)
)

// Wrap returns Funcs that pass everything on.
func Wrap(rt internalapi.RuntimeService, im internalapi.ImageManagerService) *Funcs {
	return &Funcs{RuntimeService: rt, ImageManagerService: im}
}

// Close closes both services.
func (f *Funcs) Close(ctx context.Context) error {
	var errs []error
	if f.RuntimeService != nil {
		errs = append(errs, f.RuntimeService.Close(ctx))
	}
	if f.ImageManagerService != nil {
		errs = append(errs, f.ImageManagerService.Close(ctx))
	}
	return errors.Join(errs...)
}

// Status calls StatusFunc or the service.
func (f *Funcs) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	if f.StatusFunc != nil {
		return f.StatusFunc(ctx, verbose)
	}
	return f.RuntimeService.Status(ctx, verbose)
}

// RunPodSandbox calls RunPodSandboxFunc or the service.
func (f *Funcs) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if f.RunPodSandboxFunc != nil {
		return f.RunPodSandboxFunc(ctx, config, handler)
	}
	return f.RuntimeService.RunPodSandbox(ctx, config, handler)
}

// StopPodSandbox calls StopPodSandboxFunc or the service.
func (f *Funcs) StopPodSandbox(ctx context.Context, id string) error {
	if f.StopPodSandboxFunc != nil {
		return f.StopPodSandboxFunc(ctx, id)
	}
	return f.RuntimeService.StopPodSandbox(ctx, id)
}

// RemovePodSandbox calls RemovePodSandboxFunc or the service.
func (f *Funcs) RemovePodSandbox(ctx context.Context, id string) error {
	if f.RemovePodSandboxFunc != nil {
		return f.RemovePodSandboxFunc(ctx, id)
	}
	return f.RuntimeService.RemovePodSandbox(ctx, id)
}

// PodSandboxStatus calls PodSandboxStatusFunc or the service.
func (f *Funcs) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if f.PodSandboxStatusFunc != nil {
		return f.PodSandboxStatusFunc(ctx, id, verbose)
	}
	return f.RuntimeService.PodSandboxStatus(ctx, id, verbose)
}

// ListPodSandbox calls ListPodSandboxFunc or the service.
func (f *Funcs) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if f.ListPodSandboxFunc != nil {
		return f.ListPodSandboxFunc(ctx, filter)
	}
	return f.RuntimeService.ListPodSandbox(ctx, filter)
}

// CreateContainer calls CreateContainerFunc or the service.
func (f *Funcs) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	if f.CreateContainerFunc != nil {
		return f.CreateContainerFunc(ctx, sandbox, config, sandboxConfig)
	}
	return f.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
}

// StartContainer calls StartContainerFunc or the service.
func (f *Funcs) StartContainer(ctx context.Context, id string) error {
	if f.StartContainerFunc != nil {
		return f.StartContainerFunc(ctx, id)
	}
	return f.RuntimeService.StartContainer(ctx, id)
}

// StopContainer calls StopContainerFunc or the service.
func (f *Funcs) StopContainer(ctx context.Context, id string, grace int64) error {
	if f.StopContainerFunc != nil {
		return f.StopContainerFunc(ctx, id, grace)
	}
	return f.RuntimeService.StopContainer(ctx, id, grace)
}

// RemoveContainer calls RemoveContainerFunc or the service.
func (f *Funcs) RemoveContainer(ctx context.Context, id string) error {
	if f.RemoveContainerFunc != nil {
		return f.RemoveContainerFunc(ctx, id)
	}
	return f.RuntimeService.RemoveContainer(ctx, id)
}

// ContainerStatus calls ContainerStatusFunc or the service.
func (f *Funcs) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if f.ContainerStatusFunc != nil {
		return f.ContainerStatusFunc(ctx, id, verbose)
	}
	return f.RuntimeService.ContainerStatus(ctx, id, verbose)
}

// ListContainers calls ListContainersFunc or the service.
func (f *Funcs) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if f.ListContainersFunc != nil {
		return f.ListContainersFunc(ctx, filter)
	}
	return f.RuntimeService.ListContainers(ctx, filter)
}

// UpdateContainerResources calls UpdateContainerResourcesFunc or the service.
func (f *Funcs) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	if f.UpdateContainerResourcesFunc != nil {
		return f.UpdateContainerResourcesFunc(ctx, id, resources)
	}
	return f.RuntimeService.UpdateContainerResources(ctx, id, resources)
}

// ExecSync calls ExecSyncFunc or the service.
func (f *Funcs) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	if f.ExecSyncFunc != nil {
		return f.ExecSyncFunc(ctx, id, cmd, timeout)
	}
	return f.RuntimeService.ExecSync(ctx, id, cmd, timeout)
}

// GetContainerEvents calls GetContainerEventsFunc or the service.
func (f *Funcs) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, opened func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	if f.GetContainerEventsFunc != nil {
		return f.GetContainerEventsFunc(ctx, events, opened)
	}
	return f.RuntimeService.GetContainerEvents(ctx, events, opened)
}

// ListImages calls ListImagesFunc or the service.
func (f *Funcs) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if f.ListImagesFunc != nil {
		return f.ListImagesFunc(ctx, filter)
	}
	return f.ImageManagerService.ListImages(ctx, filter)
}

// ImageStatus calls ImageStatusFunc or the service.
func (f *Funcs) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	if f.ImageStatusFunc != nil {
		return f.ImageStatusFunc(ctx, image, verbose)
	}
	return f.ImageManagerService.ImageStatus(ctx, image, verbose)
}

// PullImage calls PullImageFunc or the service.
func (f *Funcs) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if f.PullImageFunc != nil {
		return f.PullImageFunc(ctx, image, auth, sandbox)
	}
	return f.ImageManagerService.PullImage(ctx, image, auth, sandbox)
}

// RemoveImage calls RemoveImageFunc or the service.
func (f *Funcs) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	if f.RemoveImageFunc != nil {
		return f.RemoveImageFunc(ctx, image)
	}
	return f.ImageManagerService.RemoveImage(ctx, image)
}
