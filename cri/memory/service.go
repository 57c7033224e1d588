package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"
)

// The methods below are the Go interfaces of k8s.io/cri-api. They wrap and unwrap requests as
// k8s.io/cri-client does; what they do stands beside the lower-case method of the same name.

// Version reports the runtime's name and version.
func (r *Runtime) Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error) {
	return do(r, ctx, "Version", &runtimeapi.VersionRequest{Version: apiVersion}, r.version)
}

// Status reports the conditions RuntimeReady and NetworkReady.
func (r *Runtime) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return do(r, ctx, "Status", &runtimeapi.StatusRequest{Verbose: verbose}, r.runtimeStatus)
}

// RuntimeConfig reports the cgroup driver.
func (r *Runtime) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return do(r, ctx, "RuntimeConfig", &runtimeapi.RuntimeConfigRequest{}, r.runtimeConfig)
}

// UpdateRuntimeConfig records the pod CIDR.
func (r *Runtime) UpdateRuntimeConfig(ctx context.Context, c *runtimeapi.RuntimeConfig) error {
	_, err := do(r, ctx, "UpdateRuntimeConfig", &runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: c}, r.updateRuntimeConfig)
	return err
}

// RunPodSandbox makes a sandbox and returns its ID.
func (r *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	resp, err := do(r, ctx, "RunPodSandbox", &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: runtimeHandler}, r.runPodSandbox)
	return resp.GetPodSandboxId(), err
}

// StopPodSandbox kills the sandbox's containers, then the sandbox. An unknown one is no error.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	_, err := do(r, ctx, "StopPodSandbox", &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}, r.stopPodSandbox)
	return err
}

// RemovePodSandbox stops and removes a sandbox with its containers. An unknown one is no error.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	_, err := do(r, ctx, "RemovePodSandbox", &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}, r.removePodSandbox)
	return err
}

// PodSandboxStatus reports one sandbox.
func (r *Runtime) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return do(r, ctx, "PodSandboxStatus", &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose}, r.podSandboxStatus)
}

// ListPodSandbox lists sandboxes, oldest first.
func (r *Runtime) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	resp, err := do(r, ctx, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{Filter: f}, r.listPodSandbox)
	return resp.GetItems(), err
}

// UpdatePodSandboxResources records the pod's resources; a verbose status shows them.
func (r *Runtime) UpdatePodSandboxResources(ctx context.Context, q *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return do(r, ctx, "UpdatePodSandboxResources", q, r.updatePodSandboxResources)
}

// CreateContainer makes a container in a ready sandbox, of an image that is there, and returns its ID.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	resp, err := do(r, ctx, "CreateContainer", &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandboxConfig}, r.createContainer)
	return resp.GetContainerId(), err
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	_, err := do(r, ctx, "StartContainer", &runtimeapi.StartContainerRequest{ContainerId: id}, r.startContainer)
	return err
}

// StopContainer stops a container within timeout seconds. One that is unknown or does not run is no error.
func (r *Runtime) StopContainer(ctx context.Context, id string, timeout int64) error {
	_, err := do(r, ctx, "StopContainer", &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout}, r.stopContainer)
	return err
}

// RemoveContainer removes a container, and kills it first when it runs. An unknown one is no error.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	_, err := do(r, ctx, "RemoveContainer", &runtimeapi.RemoveContainerRequest{ContainerId: id}, r.removeContainer)
	return err
}

// ListContainers lists containers, oldest first.
func (r *Runtime) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	resp, err := do(r, ctx, "ListContainers", &runtimeapi.ListContainersRequest{Filter: f}, r.listContainers)
	return resp.GetContainers(), err
}

// ContainerStatus reports one container.
func (r *Runtime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return do(r, ctx, "ContainerStatus", &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose}, r.containerStatus)
}

// UpdateContainerResources changes a container's limits in its status.
func (r *Runtime) UpdateContainerResources(ctx context.Context, id string, res *runtimeapi.ContainerResources) error {
	q := &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: res.GetLinux(), Windows: res.GetWindows()}
	_, err := do(r, ctx, "UpdateContainerResources", q, r.updateContainerResources)
	return err
}

// ReopenContainerLog makes a running container's log file again after a rotation.
func (r *Runtime) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := do(r, ctx, "ReopenContainerLog", &runtimeapi.ReopenContainerLogRequest{ContainerId: id}, r.reopenContainerLog)
	return err
}

// ExecSync runs a command by the container's Behaviour. As with k8s.io/cri-client, an exit code other than
// zero is a utilexec.CodeExitError beside the output, and a timeout is remote.ErrCommandTimedOut.
func (r *Runtime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	q := &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64(timeout.Seconds())}
	resp, err := do(r, ctx, "ExecSync", q, r.execSync)
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return nil, nil, fmt.Errorf("%w: %q after %s: %w", remote.ErrCommandTimedOut, strings.Join(cmd, " "), timeout, err)
	case err != nil:
		return nil, nil, err
	case resp.ExitCode != 0:
		err = utilexec.CodeExitError{
			Err:  fmt.Errorf("command %q exited with %d: %s", strings.Join(cmd, " "), resp.ExitCode, resp.Stderr),
			Code: int(resp.ExitCode),
		}
	}
	return resp.Stdout, resp.Stderr, err
}

// Exec is not implemented: its error says so.
func (r *Runtime) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, noStreaming("Exec")
}

// Attach is not implemented: its error says so.
func (r *Runtime) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, noStreaming("Attach")
}

// PortForward is not implemented: its error says so.
func (r *Runtime) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, noStreaming("PortForward")
}

// GetContainerEvents sends events to ch until ctx ends or the stream breaks. The callback, which may be nil,
// is called with a nil client once the stream is open.
func (r *Runtime) GetContainerEvents(ctx context.Context, ch chan *runtimeapi.ContainerEventResponse, opened func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	send := func(e *runtimeapi.ContainerEventResponse) error {
		select {
		case ch <- e:
			return nil
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
	ready := func() {
		if opened != nil {
			opened(nil)
		}
	}
	return r.watch(ctx, ready, send)
}

// watch is the whole of a GetContainerEvents call.
func (r *Runtime) watch(ctx context.Context, opened func(), send func(*runtimeapi.ContainerEventResponse) error) error {
	_, err := do(r, ctx, "GetContainerEvents", &runtimeapi.GetEventsRequest{}, func(ctx context.Context, _ *runtimeapi.GetEventsRequest) (*struct{}, error) {
		return nil, r.stream(ctx, opened, send)
	})
	return err
}
