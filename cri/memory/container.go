package memory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What containerd reports for an end that was not the program's own.
const (
	startErrorCode   = 128
	startErrorReason = "StartError"
	unknownCode      = 255
	unknownReason    = "Unknown"
	oomReason        = "OOMKilled"
	killedCode       = 137
	termCode         = 143
)

// container is one container.
type container struct {
	id, name  string
	sandboxID string
	home      *sandbox
	sandbox   *runtimeapi.PodSandboxConfig // configuration of its sandbox
	config    *runtimeapi.ContainerConfig  // our own copy, never changed
	behaviour Behaviour
	imageID   string
	user      *runtimeapi.ContainerUser
	signal    runtimeapi.Signal
	resources *runtimeapi.ContainerResources
	logPath   string

	createdAt, startedAt, finishedAt int64
	lost                             bool // state UNKNOWN
	starting                         bool
	exitCode                         int32
	reason, message                  string

	done     chan struct{}  // closed at the end
	end      *alarm         // its own end, or the one that the stop signal caused
	signaled bool           // the stop signal was delivered
	watchers map[int]func() // told at the end, beside done
	watched  int
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case c.lost:
		return runtimeapi.ContainerState_CONTAINER_UNKNOWN
	case c.finishedAt != 0:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case c.startedAt != 0:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func containerName(c *runtimeapi.ContainerMetadata, s *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{c.GetName(), s.GetName(), s.GetNamespace(), s.GetUid(), strconv.FormatUint(uint64(c.GetAttempt()), 10)}, "_")
}

// snapshot is what scripts and tests see. The lock is held.
func (c *container) snapshot() Container {
	m := c.sandbox.GetMetadata()
	k := Container{
		ID: c.id, SandboxID: c.sandboxID, Name: c.config.Metadata.Name, Attempt: c.config.Metadata.Attempt,
		PodName: m.GetName(), PodNamespace: m.GetNamespace(), PodUID: m.GetUid(), Image: c.config.GetImage().GetImage(),
		State: c.state(), ExitCode: c.exitCode, Reason: c.shownReason(), CreatedAt: time.Unix(0, c.createdAt), Config: c.config,
	}
	if c.finishedAt != 0 {
		k.FinishedAt = time.Unix(0, c.finishedAt)
	}
	return k
}

func (r *Runtime) createContainer(_ context.Context, q *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	c, err := r.prepare(q)
	if err != nil {
		return nil, err
	}
	c.behaviour = r.behaviourOf(c.snapshot()) // the site's code: without the lock
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := c.behaviour.CreateError; err != nil {
		r.release("container", c.name)
		return nil, unknown(fmt.Errorf("failed to create containerd container: %w", err))
	}
	if r.state.sandboxes[c.sandboxID] != c.home {
		r.release("container", c.name)
		return nil, notFound("failed to find sandbox id %q", c.sandboxID)
	}
	c.createdAt = r.stampNow()
	r.state.containers[c.id] = c
	r.state.ordered = append(r.state.ordered, c)
	c.home.containers = append(c.home.containers, c)
	r.emit(c.home, c.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// prepare checks a request and reserves the container's name.
func (r *Runtime) prepare(q *runtimeapi.CreateContainerRequest) (*container, error) {
	if q.GetConfig().GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "container config must have a name")
	}
	config := proto.CloneOf(q.GetConfig())
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := find(r.state.sandboxes, q.GetPodSandboxId())
	if !ok {
		return nil, notFound("failed to find sandbox id %q", q.GetPodSandboxId())
	}
	if !s.ready {
		return nil, unknown(fmt.Errorf("sandbox container %q is not running", s.id))
	}
	c := &container{
		id: r.id("container"), sandboxID: s.id, home: s, sandbox: s.config, config: config,
		name: containerName(config.Metadata, s.config.Metadata), done: make(chan struct{}),
	}
	if err := r.reserve("container", c.name, c.id); err != nil {
		return nil, unknown(err)
	}
	img, err := r.state.images.resolve(config.GetImage().GetImage())
	if err != nil {
		r.release("container", c.name)
		return nil, err
	}
	c.imageID = img.id
	c.user, c.signal = img.userFor(config), img.signalFor(config)
	if l := config.GetLinux().GetResources(); l != nil {
		c.resources = &runtimeapi.ContainerResources{Linux: proto.CloneOf(l)}
	} else {
		c.resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{}}
	}
	// containerd takes the directory from the configuration that CreateContainer brings.
	dir := q.GetSandboxConfig().GetLogDirectory()
	if config.LogPath != "" {
		c.logPath = filepath.Join(dir, config.LogPath)
	}
	return c, nil
}

// behaviourOf asks the rules, then the script.
func (r *Runtime) behaviourOf(c Container) Behaviour {
	r.mu.Lock()
	rules := r.rules
	r.mu.Unlock()
	for _, rule := range rules {
		if b, ok := rule(c); ok {
			return b
		}
	}
	if r.opt.Script != nil {
		return r.opt.Script(c)
	}
	return Behaviour{}
}

func (r *Runtime) startContainer(ctx context.Context, q *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := find(r.state.containers, q.GetContainerId())
	if !ok {
		return nil, notFound("an error occurred when try to find container %q", q.GetContainerId())
	}
	if c.state() != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, unknown(fmt.Errorf("failed to set starting state for container %q: container is in %s state", c.id, c.state()))
	}
	if c.starting {
		return nil, unknown(fmt.Errorf("failed to set starting state for container %q: container is already in starting state", c.id))
	}
	c.starting = true
	err := c.behaviour.StartError
	if d := c.behaviour.StartDelay; d > 0 && c.home.ready {
		r.mu.Unlock()
		if waitErr := r.sleep(ctx, d); waitErr != nil {
			err = waitErr
		}
		r.mu.Lock()
		if r.gate.isOut() { // the runtime went away in the middle: it finds the container as created
			c.starting = false
			return nil, errUnavailable()
		}
	}
	c.starting = false
	switch {
	case !c.home.ready:
		err = unknown(fmt.Errorf("sandbox container %q is not running", c.sandboxID))
	case err != nil:
		err = unknown(fmt.Errorf("failed to create containerd task: %w", err))
	}
	now := nanos(r.opt.Clock.Now())
	if err != nil {
		c.finishedAt, c.exitCode, c.reason, c.message = now, startErrorCode, startErrorReason, err.Error()
		c.ended()
		r.change()
		return nil, err
	}
	c.startedAt = now
	r.writeLog(c)
	r.emit(c.home, c.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	r.scheduleEnd(c)
	return &runtimeapi.StartContainerResponse{}, nil
}

// scheduleEnd arranges for the end that the behaviour wants. The lock is held.
func (r *Runtime) scheduleEnd(c *container) {
	b := c.behaviour
	if !b.Exits && b.RunFor <= 0 {
		return
	}
	end := func(at time.Time) {
		r.writeTermination(c)
		r.exited(c, at, exit{b.ExitCode, b.Reason, b.Message})
	}
	if b.RunFor <= 0 {
		end(r.opt.Clock.Now())
		return
	}
	c.end = r.alarms.after(b.RunFor, end)
}

func (r *Runtime) removeContainer(ctx context.Context, q *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	c, ok := find(r.state.containers, q.GetContainerId())
	r.mu.Unlock()
	if !ok {
		return &runtimeapi.RemoveContainerResponse{}, nil
	}
	if err := r.stop(ctx, c, 0); err != nil {
		return nil, fmt.Errorf("failed to forcibly stop container %q: %w", c.id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.drop(c); err != nil {
		return nil, unknown(fmt.Errorf("failed to set removing state for container %q: %w", c.id, err))
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// drop forgets a container that does not run. The lock is held.
func (r *Runtime) drop(c *container) error {
	if r.state.containers[c.id] != c {
		return nil
	}
	switch {
	case c.starting:
		return errors.New("container is in starting state, can't be removed")
	case c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING:
		return errors.New("container is still running, to stop first")
	}
	r.forget(c)
	r.emit(c.home, c.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// forget takes a container out of every index. The lock is held.
func (r *Runtime) forget(c *container) {
	r.alarms.cancel(c.end)
	delete(r.state.containers, c.id)
	r.state.ordered = without(r.state.ordered, c)
	c.home.containers = without(c.home.containers, c)
	r.release("container", c.name)
}
