package memory

import (
	"errors"
	"fmt"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrNoSuchContainer is what the controls answer when no container fits.
var ErrNoSuchContainer = errors.New("no such container runs")

// ErrNoSuchSandbox is what the controls answer when no ready sandbox fits.
var ErrNoSuchSandbox = errors.New("no such sandbox is ready")

// running is the newest running container of a pod with that name. The lock is held.
func (r *Runtime) running(podUID, name string) (*container, error) {
	r.alarms.due(r.opt.Clock.Now())
	for _, c := range slices.Backward(r.state.ordered) {
		if c.sandbox.Metadata.Uid == podUID && c.config.Metadata.Name == name && c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			return c, nil
		}
	}
	return nil, fmt.Errorf("pod %s, container %s: %w", podUID, name, ErrNoSuchContainer)
}

// Exit makes the newest running container of that name in the pod of that UID end now with code, and writes
// its termination message. It ends Unkillable ones too.
func (r *Runtime) Exit(podUID, name string, code int32) error {
	return r.finish(podUID, name, exit{code: code})
}

// OOMKill ends a running container as the kernel does when it is out of memory: code 137, reason OOMKilled.
func (r *Runtime) OOMKill(podUID, name string) error {
	return r.finish(podUID, name, exit{code: killedCode, reason: oomReason})
}

func (r *Runtime) finish(podUID, name string, e exit) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.running(podUID, name)
	if err != nil {
		return err
	}
	r.writeTermination(c)
	r.exited(c, r.opt.Clock.Now(), e)
	return nil
}

// KillSandbox makes the newest ready sandbox of a pod NotReady, as when its pause process dies. Its
// containers run on, and it keeps its addresses, until somebody stops it.
func (r *Runtime) KillSandbox(podUID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	for _, s := range slices.Backward(r.state.order) {
		if s.config.Metadata.Uid == podUID && s.ready {
			r.sandboxDown(s)
			return nil
		}
	}
	return fmt.Errorf("pod %s: %w", podUID, ErrNoSuchSandbox)
}

// SetUnknown gives the running containers for which match is true the state UNKNOWN, as containerd does
// with what it cannot load when it starts. Stopping such a container makes it exited, with code 255. It returns
// how many there were.
func (r *Runtime) SetUnknown(match func(Container) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	n := 0
	for _, c := range r.state.ordered {
		if c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING && match(c.snapshot()) {
			r.alarms.cancel(c.end)
			c.end, c.lost = nil, true
			c.exitCode, c.reason = unknownCode, unknownReason
			n++
		}
	}
	r.change()
	return n
}

// Forget takes the containers for which match is true away, without an event, as when the runtime's records
// of them are lost. It returns how many there were.
func (r *Runtime) Forget(match func(Container) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	n := 0
	for _, c := range slices.Clone(r.state.ordered) {
		if match(c.snapshot()) {
			if c.finishedAt == 0 && (c.startedAt != 0 || c.lost) {
				c.finishedAt = nanos(r.opt.Clock.Now())
				c.ended()
			}
			r.forget(c)
			n++
		}
	}
	r.change()
	return n
}

// RebootOptions say what a reboot leaves.
type RebootOptions struct {
	// Wipe: nothing of sandboxes and containers is left, as when the runtime's state was on a tmpfs. By
	// default they are still listed: sandboxes NotReady without addresses, containers that ran as exited with
	// code 255 and reason Unknown.
	Wipe bool
	// WipeImages: the images are gone too.
	WipeImages bool
}

// Reboot is a reboot of the machine: everything stops at once, event streams break, calls that wait fail
// with Unavailable. The runtime is up again when it returns.
func (r *Runtime) Reboot(o RebootOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Clock.Now()
	r.alarms.due(now)
	wasDown := r.gate.down
	r.gate.down = true // nobody is told what happens now
	r.outage()
	for _, c := range r.state.ordered {
		r.exited(c, now, exit{code: unknownCode, reason: unknownReason})
	}
	for _, s := range r.state.order {
		r.detach(s)
		s.ready = false
	}
	if o.Wipe {
		for _, c := range slices.Clone(r.state.ordered) {
			r.forget(c)
		}
		for _, s := range slices.Clone(r.state.order) {
			r.dropSandbox(s)
		}
	}
	if o.WipeImages {
		for _, s := range slices.Clone(r.state.images.order) {
			r.state.images.remove(s)
		}
	}
	r.events.held = nil
	r.change()
	r.gate.down = wasDown
	r.restore()
}

// AddRule makes rule the first that is asked for containers created from now on.
func (r *Runtime) AddRule(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append([]Rule{rule}, r.rules...)
}
