package memory

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats reports what one container uses, from its Behaviour.
func (r *Runtime) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	resp, err := do(r, ctx, "ContainerStats", &runtimeapi.ContainerStatsRequest{ContainerId: id}, r.containerStats)
	return resp.GetStats(), err
}

// ListContainerStats reports what the running containers use.
func (r *Runtime) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	resp, err := do(r, ctx, "ListContainerStats", &runtimeapi.ListContainerStatsRequest{Filter: f}, r.listContainerStats)
	return resp.GetStats(), err
}

// PodSandboxStats reports what one pod uses: the sum of its running containers.
func (r *Runtime) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	resp, err := do(r, ctx, "PodSandboxStats", &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id}, r.podSandboxStats)
	return resp.GetStats(), err
}

// ListPodSandboxStats reports what the ready pods use.
func (r *Runtime) ListPodSandboxStats(ctx context.Context, f *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	resp, err := do(r, ctx, "ListPodSandboxStats", &runtimeapi.ListPodSandboxStatsRequest{Filter: f}, r.listPodSandboxStats)
	return resp.GetStats(), err
}

// ListMetricDescriptors returns none.
func (r *Runtime) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, nil
}

// ListPodSandboxMetrics returns none.
func (r *Runtime) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, nil
}

// CheckpointContainer is not implemented.
func (r *Runtime) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) error {
	return noCheckpoints("CheckpointContainer")
}

// CheckpointPod is not implemented.
func (r *Runtime) CheckpointPod(context.Context, *runtimeapi.CheckpointPodRequest) error {
	return noCheckpoints("CheckpointPod")
}

// RestorePod is not implemented.
func (r *Runtime) RestorePod(context.Context, *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	return nil, noCheckpoints("RestorePod")
}

func noCheckpoints(method string) error {
	return status.Errorf(codes.Unimplemented, "the in-memory runtime has no processes to checkpoint: %s is not implemented", method)
}

// ListImages lists the images, in the order they came.
func (r *Runtime) ListImages(ctx context.Context, f *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	resp, err := do(r, ctx, "ListImages", &runtimeapi.ListImagesRequest{Filter: f}, r.listImages)
	return resp.GetImages(), err
}

// ImageStatus reports one image. For one that is not there the reply has no image.
func (r *Runtime) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return do(r, ctx, "ImageStatus", &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose}, r.imageStatus)
}

// PullImage pulls an image from the registry of the Options and returns its ID.
func (r *Runtime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	resp, err := do(r, ctx, "PullImage", &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox}, r.pullImage)
	return resp.GetImageRef(), err
}

// RemoveImage removes an image with all its names. An unknown one is no error.
func (r *Runtime) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	_, err := do(r, ctx, "RemoveImage", &runtimeapi.RemoveImageRequest{Image: image}, r.removeImage)
	return err
}

// ImageFsInfo reports the images' size as the use of one file system.
func (r *Runtime) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return do(r, ctx, "ImageFsInfo", &runtimeapi.ImageFsInfoRequest{}, r.imageFsInfo)
}
