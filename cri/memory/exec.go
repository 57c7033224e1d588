package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *Runtime) execSync(ctx context.Context, q *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	c, ok := find(r.state.containers, q.GetContainerId())
	var state runtimeapi.ContainerState
	if ok {
		state = c.state()
	}
	r.mu.Unlock()
	if !ok {
		return nil, notFound("failed to exec in container: failed to find container %q in store", q.GetContainerId())
	}
	if state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, unknown(fmt.Errorf("failed to exec in container: container is in %s state", state))
	}
	if c.behaviour.Exec == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	res := c.behaviour.Exec(ctx, append([]string(nil), q.GetCmd()...))
	if res.Err != nil {
		return nil, unknown(fmt.Errorf("failed to exec in container: %w", res.Err))
	}
	if res.Duration > 0 {
		if ended, err := r.runExec(ctx, c, q, res.Duration); err != nil || ended != nil {
			return ended, err
		}
	}
	return &runtimeapi.ExecSyncResponse{Stdout: res.Stdout, Stderr: res.Stderr, ExitCode: res.ExitCode}, nil
}

// runExec lets a command take its time: it ends early, with 137, when its container ends, and fails with
// DeadlineExceeded when its timeout is over.
func (r *Runtime) runExec(ctx context.Context, c *container, q *runtimeapi.ExecSyncRequest, d time.Duration) (*runtimeapi.ExecSyncResponse, error) {
	timeout := time.Duration(q.GetTimeout()) * time.Second
	late := timeout > 0 && timeout < d
	if late {
		d = timeout
	}
	// One channel for both ends, closed with the lock held: at d, or when the container ends.
	over, dead := make(chan struct{}), false
	finish := func(died bool) {
		if !isClosed(over) {
			dead = died
			close(over)
		}
	}
	r.mu.Lock()
	a := r.alarms.after(d, func(time.Time) { finish(false) })
	watch := c.onEnd(func() { finish(true) })
	r.mu.Unlock()
	err := r.wait(ctx, over)
	r.mu.Lock()
	r.alarms.cancel(a)
	delete(c.watchers, watch)
	died := dead
	r.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case died:
		return &runtimeapi.ExecSyncResponse{ExitCode: killedCode}, nil
	case late:
		return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %v exceeded: context deadline exceeded", timeout)
	}
	return nil, nil
}

// noStreaming is the answer of the calls that would need a streaming server.
func noStreaming(method string) error {
	return status.Errorf(codes.Unimplemented, "the in-memory runtime has no streaming server: %s is not implemented", method)
}

func (r *Runtime) reopenContainerLog(_ context.Context, q *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := find(r.state.containers, q.GetContainerId())
	if !ok {
		return nil, notFound("an error occurred when try to find container %q", q.GetContainerId())
	}
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, unknown(errors.New("container is not running"))
	}
	if err := r.appendLog(c, "", nil); err != nil {
		return nil, unknown(fmt.Errorf("failed to create container loggers: %w", err))
	}
	return &runtimeapi.ReopenContainerLogResponse{}, nil
}
