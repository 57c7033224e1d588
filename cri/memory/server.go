package memory

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Register makes a gRPC server serve rt's runtime and image services.
func Register(s grpc.ServiceRegistrar, rt *Runtime) {
	runtimeapi.RegisterRuntimeServiceServer(s, &runtimeServer{r: rt})
	runtimeapi.RegisterImageServiceServer(s, &imageServer{r: rt})
}

// runtimeServer is the gRPC face of a Runtime: the same calls, through the same gate.
type runtimeServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	r *Runtime
}

func (s *runtimeServer) Version(ctx context.Context, q *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return do(s.r, ctx, "Version", q, s.r.version)
}

func (s *runtimeServer) Status(ctx context.Context, q *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return do(s.r, ctx, "Status", q, s.r.runtimeStatus)
}

func (s *runtimeServer) RuntimeConfig(ctx context.Context, q *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return do(s.r, ctx, "RuntimeConfig", q, s.r.runtimeConfig)
}

func (s *runtimeServer) UpdateRuntimeConfig(ctx context.Context, q *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return do(s.r, ctx, "UpdateRuntimeConfig", q, s.r.updateRuntimeConfig)
}

func (s *runtimeServer) RunPodSandbox(ctx context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	return do(s.r, ctx, "RunPodSandbox", q, s.r.runPodSandbox)
}

func (s *runtimeServer) StopPodSandbox(ctx context.Context, q *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	return do(s.r, ctx, "StopPodSandbox", q, s.r.stopPodSandbox)
}

func (s *runtimeServer) RemovePodSandbox(ctx context.Context, q *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	return do(s.r, ctx, "RemovePodSandbox", q, s.r.removePodSandbox)
}

func (s *runtimeServer) PodSandboxStatus(ctx context.Context, q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return do(s.r, ctx, "PodSandboxStatus", q, s.r.podSandboxStatus)
}

func (s *runtimeServer) ListPodSandbox(ctx context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return do(s.r, ctx, "ListPodSandbox", q, s.r.listPodSandbox)
}

func (s *runtimeServer) UpdatePodSandboxResources(ctx context.Context, q *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return do(s.r, ctx, "UpdatePodSandboxResources", q, s.r.updatePodSandboxResources)
}

func (s *runtimeServer) CreateContainer(ctx context.Context, q *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	return do(s.r, ctx, "CreateContainer", q, s.r.createContainer)
}

func (s *runtimeServer) StartContainer(ctx context.Context, q *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	return do(s.r, ctx, "StartContainer", q, s.r.startContainer)
}

func (s *runtimeServer) StopContainer(ctx context.Context, q *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return do(s.r, ctx, "StopContainer", q, s.r.stopContainer)
}

func (s *runtimeServer) RemoveContainer(ctx context.Context, q *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	return do(s.r, ctx, "RemoveContainer", q, s.r.removeContainer)
}

func (s *runtimeServer) ListContainers(ctx context.Context, q *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return do(s.r, ctx, "ListContainers", q, s.r.listContainers)
}

func (s *runtimeServer) ContainerStatus(ctx context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return do(s.r, ctx, "ContainerStatus", q, s.r.containerStatus)
}

func (s *runtimeServer) UpdateContainerResources(ctx context.Context, q *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return do(s.r, ctx, "UpdateContainerResources", q, s.r.updateContainerResources)
}

func (s *runtimeServer) ReopenContainerLog(ctx context.Context, q *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return do(s.r, ctx, "ReopenContainerLog", q, s.r.reopenContainerLog)
}

func (s *runtimeServer) ExecSync(ctx context.Context, q *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	return do(s.r, ctx, "ExecSync", q, s.r.execSync)
}

func (s *runtimeServer) Exec(ctx context.Context, q *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return s.r.Exec(ctx, q)
}

func (s *runtimeServer) Attach(ctx context.Context, q *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return s.r.Attach(ctx, q)
}

func (s *runtimeServer) PortForward(ctx context.Context, q *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return s.r.PortForward(ctx, q)
}

func (s *runtimeServer) ContainerStats(ctx context.Context, q *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	return do(s.r, ctx, "ContainerStats", q, s.r.containerStats)
}

func (s *runtimeServer) ListContainerStats(ctx context.Context, q *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return do(s.r, ctx, "ListContainerStats", q, s.r.listContainerStats)
}

func (s *runtimeServer) PodSandboxStats(ctx context.Context, q *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	return do(s.r, ctx, "PodSandboxStats", q, s.r.podSandboxStats)
}

func (s *runtimeServer) ListPodSandboxStats(ctx context.Context, q *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return do(s.r, ctx, "ListPodSandboxStats", q, s.r.listPodSandboxStats)
}

func (s *runtimeServer) ListMetricDescriptors(context.Context, *runtimeapi.ListMetricDescriptorsRequest) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return &runtimeapi.ListMetricDescriptorsResponse{}, nil
}

func (s *runtimeServer) ListPodSandboxMetrics(context.Context, *runtimeapi.ListPodSandboxMetricsRequest) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	return &runtimeapi.ListPodSandboxMetricsResponse{}, nil
}

func (s *runtimeServer) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) (*runtimeapi.CheckpointContainerResponse, error) {
	return nil, noCheckpoints("CheckpointContainer")
}

func (s *runtimeServer) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	return s.r.watch(stream.Context(), nil, stream.Send)
}

// imageServer is the image half.
type imageServer struct {
	runtimeapi.UnimplementedImageServiceServer
	r *Runtime
}

func (s *imageServer) ListImages(ctx context.Context, q *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return do(s.r, ctx, "ListImages", q, s.r.listImages)
}

func (s *imageServer) ImageStatus(ctx context.Context, q *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return do(s.r, ctx, "ImageStatus", q, s.r.imageStatus)
}

func (s *imageServer) PullImage(ctx context.Context, q *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	return do(s.r, ctx, "PullImage", q, s.r.pullImage)
}

func (s *imageServer) RemoveImage(ctx context.Context, q *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return do(s.r, ctx, "RemoveImage", q, s.r.removeImage)
}

func (s *imageServer) ImageFsInfo(ctx context.Context, q *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return do(s.r, ctx, "ImageFsInfo", q, s.r.imageFsInfo)
}
