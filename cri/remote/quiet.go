package remote

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
)

// quiet gives the client a logger of its own, in the context of each call: by
// itself it writes each failed call to the process-wide klog, and so to
// standard error, although it returns the error as well.
type quiet struct{ log logr.Logger }

func newQuiet(l *slog.Logger) quiet {
	if l == nil {
		return quiet{logr.Discard()}
	}
	return quiet{logr.FromSlogHandler(demote{l.Handler()})}
}

func (q quiet) ctx(ctx context.Context) context.Context { return klog.NewContext(ctx, q.log) }

// demote passes on errors alone, as debug records.
type demote struct{ slog.Handler }

func (d demote) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demote) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

func (d demote) WithAttrs(as []slog.Attr) slog.Handler { return demote{d.Handler.WithAttrs(as)} }

func (d demote) WithGroup(name string) slog.Handler { return demote{d.Handler.WithGroup(name)} }

var (
	_ internalapi.RuntimeService      = (*quietRuntime)(nil)
	_ internalapi.ImageManagerService = (*quietImages)(nil)
)

// quietRuntime is a RuntimeService whose calls log to quiet. The service is a
// field with a name, so that a call that is new to the interface does not
// compile until it is quiet too.
type quietRuntime struct {
	svc internalapi.RuntimeService
	quiet
}

// quietImages is an ImageManagerService whose calls log to quiet.
type quietImages struct {
	svc internalapi.ImageManagerService
	quiet
}

func (q *quietRuntime) Version(ctx context.Context, v string) (*runtimeapi.VersionResponse, error) {
	return q.svc.Version(q.ctx(ctx), v)
}

func (q *quietRuntime) CreateContainer(ctx context.Context, id string, c *runtimeapi.ContainerConfig, s *runtimeapi.PodSandboxConfig) (string, error) {
	return q.svc.CreateContainer(q.ctx(ctx), id, c, s)
}

func (q *quietRuntime) StartContainer(ctx context.Context, id string) error {
	return q.svc.StartContainer(q.ctx(ctx), id)
}

func (q *quietRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	return q.svc.StopContainer(q.ctx(ctx), id, timeout)
}

func (q *quietRuntime) RemoveContainer(ctx context.Context, id string) error {
	return q.svc.RemoveContainer(q.ctx(ctx), id)
}

func (q *quietRuntime) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return q.svc.ListContainers(q.ctx(ctx), f)
}

func (q *quietRuntime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return q.svc.ContainerStatus(q.ctx(ctx), id, verbose)
}

func (q *quietRuntime) UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.ContainerResources) error {
	return q.svc.UpdateContainerResources(q.ctx(ctx), id, r)
}

func (q *quietRuntime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
	return q.svc.ExecSync(q.ctx(ctx), id, cmd, timeout)
}

func (q *quietRuntime) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return q.svc.Exec(q.ctx(ctx), r)
}

func (q *quietRuntime) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return q.svc.Attach(q.ctx(ctx), r)
}

func (q *quietRuntime) ReopenContainerLog(ctx context.Context, id string) error {
	return q.svc.ReopenContainerLog(q.ctx(ctx), id)
}

func (q *quietRuntime) CheckpointContainer(ctx context.Context, r *runtimeapi.CheckpointContainerRequest) error {
	return q.svc.CheckpointContainer(q.ctx(ctx), r)
}

func (q *quietRuntime) GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, connected func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return q.svc.GetContainerEvents(q.ctx(ctx), ch, connected)
}

func (q *quietRuntime) RunPodSandbox(ctx context.Context, c *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return q.svc.RunPodSandbox(q.ctx(ctx), c, handler)
}

func (q *quietRuntime) StopPodSandbox(ctx context.Context, id string) error {
	return q.svc.StopPodSandbox(q.ctx(ctx), id)
}

func (q *quietRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	return q.svc.RemovePodSandbox(q.ctx(ctx), id)
}

func (q *quietRuntime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return q.svc.PodSandboxStatus(q.ctx(ctx), id, verbose)
}

func (q *quietRuntime) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return q.svc.ListPodSandbox(q.ctx(ctx), f)
}

func (q *quietRuntime) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return q.svc.PortForward(q.ctx(ctx), r)
}

func (q *quietRuntime) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return q.svc.UpdatePodSandboxResources(q.ctx(ctx), r)
}

func (q *quietRuntime) CheckpointPod(ctx context.Context, r *runtimeapi.CheckpointPodRequest) error {
	return q.svc.CheckpointPod(q.ctx(ctx), r)
}

func (q *quietRuntime) RestorePod(ctx context.Context, r *runtimeapi.RestorePodRequest) (*runtimeapi.RestorePodResponse, error) {
	return q.svc.RestorePod(q.ctx(ctx), r)
}

func (q *quietRuntime) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	return q.svc.ContainerStats(q.ctx(ctx), id)
}

func (q *quietRuntime) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return q.svc.ListContainerStats(q.ctx(ctx), f)
}

func (q *quietRuntime) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	return q.svc.PodSandboxStats(q.ctx(ctx), id)
}

func (q *quietRuntime) ListPodSandboxStats(ctx context.Context, f *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	return q.svc.ListPodSandboxStats(q.ctx(ctx), f)
}

func (q *quietRuntime) ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return q.svc.ListMetricDescriptors(q.ctx(ctx))
}

func (q *quietRuntime) ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return q.svc.ListPodSandboxMetrics(q.ctx(ctx))
}

func (q *quietRuntime) UpdateRuntimeConfig(ctx context.Context, c *runtimeapi.RuntimeConfig) error {
	return q.svc.UpdateRuntimeConfig(q.ctx(ctx), c)
}

func (q *quietRuntime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return q.svc.Status(q.ctx(ctx), verbose)
}

func (q *quietRuntime) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return q.svc.RuntimeConfig(q.ctx(ctx))
}

func (q *quietRuntime) Close(ctx context.Context) error {
	return q.svc.Close(q.ctx(ctx))
}

func (q *quietImages) ListImages(ctx context.Context, f *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return q.svc.ListImages(q.ctx(ctx), f)
}

func (q *quietImages) ImageStatus(ctx context.Context, i *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return q.svc.ImageStatus(q.ctx(ctx), i, verbose)
}

func (q *quietImages) PullImage(ctx context.Context, i *runtimeapi.ImageSpec, a *runtimeapi.AuthConfig, c *runtimeapi.PodSandboxConfig) (string, error) {
	return q.svc.PullImage(q.ctx(ctx), i, a, c)
}

func (q *quietImages) RemoveImage(ctx context.Context, i *runtimeapi.ImageSpec) error {
	return q.svc.RemoveImage(q.ctx(ctx), i)
}

func (q *quietImages) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return q.svc.ImageFsInfo(q.ctx(ctx))
}

func (q *quietImages) Close(ctx context.Context) error {
	return q.svc.Close(q.ctx(ctx))
}
