package memory

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// exit is how a container ends.
type exit struct {
	code            int32
	reason, message string
}

// exited ends a running container, or one of unknown state; others are left alone. The lock is held.
func (r *Runtime) exited(c *container, at time.Time, e exit) {
	if c.startedAt == 0 && !c.lost || c.finishedAt != 0 {
		return
	}
	r.alarms.cancel(c.end)
	c.end = nil
	c.lost = false
	c.finishedAt = max(nanos(at), c.startedAt)
	c.exitCode, c.reason, c.message = e.code, e.reason, e.message
	c.ended()
	if r.state.containers[c.id] == c {
		r.emit(c.home, c.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

// ended tells everyone who waits for the container's end. The lock is held.
func (c *container) ended() {
	close(c.done)
	for _, tell := range c.watchers {
		tell()
	}
	c.watchers = nil
}

// onEnd calls fn, with the lock held, when the container ends; at once when it has. The number is that of the
// watcher. The lock is held.
func (c *container) onEnd(fn func()) int {
	if isClosed(c.done) {
		fn()
		return 0
	}
	if c.watchers == nil {
		c.watchers = map[int]func(){}
	}
	c.watched++
	c.watchers[c.watched] = fn
	return c.watched
}

func (r *Runtime) stopContainer(ctx context.Context, q *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	c, ok := find(r.state.containers, q.GetContainerId())
	r.mu.Unlock()
	if !ok { // idempotent: gone is stopped
		return &runtimeapi.StopContainerResponse{}, nil
	}
	if err := r.stop(ctx, c, time.Duration(q.GetTimeout())*time.Second); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// stop stops a container as containerd does: the stop signal, once in the container's life; grace later
// SIGKILL. When ctx ends first, the signal has been sent and nothing more happens. A grace of zero kills at
// once. A container that does not run is left alone; one of unknown state becomes exited with 255.
func (r *Runtime) stop(ctx context.Context, c *container, grace time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c.state() {
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
		r.exited(c, r.opt.Clock.Now(), exit{code: unknownCode, reason: unknownReason})
		return nil
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
	default:
		return nil
	}
	var kill *alarm
	if grace > 0 {
		r.terminate(c)
		kill = r.alarms.after(grace, func(at time.Time) { r.kill(c, at) })
	} else {
		r.kill(c, r.opt.Clock.Now())
	}
	if c.finishedAt != 0 {
		r.alarms.cancel(kill)
		return nil
	}
	r.mu.Unlock()
	err := r.wait(ctx, c.done)
	r.mu.Lock()
	r.alarms.cancel(kill)
	if err != nil {
		return fmt.Errorf("wait container %q: %w", c.id, err)
	}
	return nil
}

// terminate delivers the stop signal. The lock is held.
func (r *Runtime) terminate(c *container) {
	if c.signaled {
		return
	}
	c.signaled = true
	b := c.behaviour
	if b.IgnoreTERM || b.Unkillable {
		return
	}
	e := exit{code: termCode}
	if b.TermExitCode != nil {
		e.code = *b.TermExitCode
	}
	if b.TermDelay <= 0 {
		r.exited(c, r.opt.Clock.Now(), e)
		return
	}
	if c.end != nil && c.end.index >= 0 && !c.end.at.After(r.opt.Clock.Now().Add(b.TermDelay)) {
		return // it ends by itself before it would end because of the signal
	}
	r.alarms.cancel(c.end)
	c.end = r.alarms.after(b.TermDelay, func(at time.Time) { r.exited(c, at, e) })
}

// kill delivers SIGKILL. The lock is held.
func (r *Runtime) kill(c *container, at time.Time) {
	if !c.behaviour.Unkillable {
		r.exited(c, at, exit{code: killedCode})
	}
}
