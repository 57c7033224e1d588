package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// stopper stops containers of one pod.
type stopper struct {
	r   *Runtime
	pod *corev1.Pod
	rt  *podsync.RuntimePod
	// rebuilt is the pod as the labels and annotations have it, for containers
	// that pod does not name.
	rebuilt *corev1.Pod
	// event records an event about the pod.
	event func(eventType, reason, format string, args ...any)
	// hooked tells whether a container's preStop hook has been run already, and
	// ran says so; both may be nil.
	hooked func(id string) bool
	ran    func(id string)
}

// stopOne is one container to stop.
type stopOne struct {
	id, name, message string
	// grace is how long it has to stop, its preStop hook included.
	grace time.Duration
	// wait blocks until it is the container's turn or ctx ends; nil does not.
	wait func(ctx context.Context)
}

// container returns the spec of a container, nil if nobody has it.
func (k *stopper) container(name string) *corev1.Container {
	if c := findContainer(k.pod, name); c != nil {
		return c
	}
	if k.rebuilt == nil {
		k.rebuilt = config.RebuildPod(k.rt)
	}
	if k.rebuilt == nil {
		return nil
	}
	return findContainer(k.rebuilt, name)
}

// findContainer returns a container of any kind by its name.
func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return config.Ephemeral(&pod.Spec.EphemeralContainers[i])
		}
	}
	return nil
}

// stop runs the preStop hook, waits for the container's turn and stops it, all
// within its grace. A hook that fails or takes too long does not keep the
// container alive. A container that is gone has stopped.
func (k *stopper) stop(ctx context.Context, s stopOne) error {
	clock := k.r.o.Clock
	began := clock.Now()
	if s.message == "" {
		s.message = "Stopping container " + s.name
	}
	k.event(corev1.EventTypeNormal, ReasonKilling, "%s", s.message)
	spec := k.container(s.name)
	if spec != nil && spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && s.grace > 0 && (k.hooked == nil || !k.hooked(s.id)) {
		k.preStop(ctx, s, spec)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if k.ran != nil {
			k.ran(s.id)
		}
	}
	if s.wait != nil {
		wctx, cancel := context.WithTimeout(ctx, s.grace-clock.Since(began))
		s.wait(wctx)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	left := max(s.grace-clock.Since(began), plan.MinimumGrace)
	k.r.mon.expect(k.pod.UID, s.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	cctx, cancel := context.WithTimeout(ctx, left+k.r.o.CallTimeout)
	defer cancel()
	err := k.r.o.Runtime.StopContainer(cctx, s.id, int64((left+time.Second-1)/time.Second))
	if err != nil && !notFound(err) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("stop container %s (%s) of pod %s: %w", s.name, short(s.id), podsync.Ref(k.pod), err)
	}
	return nil
}

// preStop runs the hook for as long as the grace allows.
func (k *stopper) preStop(ctx context.Context, s stopOne, spec *corev1.Container) {
	hctx, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	err := k.r.hooks.run(hctx, hookCall{handler: spec.Lifecycle.PreStop, pod: k.pod, container: spec, id: s.id,
		ip: k.r.hookIP(k.pod, k.rt.IPs), warn: k.warn})
	switch {
	case ctx.Err() != nil:
	case err != nil && hctx.Err() != nil:
		k.warn(ReasonFailedPreStopHook, "PreStopHook of container %s did not end within the grace period of %s", s.name, s.grace)
	case err != nil:
		k.warn(ReasonFailedPreStopHook, "PreStopHook of container %s failed", s.name)
		k.r.log.InfoContext(ctx, "preStop hook failed", "pod", podsync.Ref(k.pod), "container", s.name, "err", err)
	}
}

func (k *stopper) warn(reason, format string, args ...any) {
	k.event(corev1.EventTypeWarning, reason, format, args...)
}

// hookIP returns the address that an HTTP hook goes to by default.
func (r *Runtime) hookIP(pod *corev1.Pod, ips []string) string {
	if len(ips) > 0 {
		return ips[0]
	}
	if pod.Spec.HostNetwork {
		if node := r.o.Node(); len(node.IPs) > 0 {
			return node.IPs[0]
		}
		return "127.0.0.1"
	}
	return ""
}

// stopAll stops everything of the pod that may run, sidecars last, and then its
// sandboxes. grace says what a container has left to stop. It does as much as
// it can and joins the errors; it returns what was stopped.
func (k *stopper) stopAll(ctx context.Context, grace func(id, name string) (time.Duration, string)) (stopped []string, err error) {
	stops := plan.StopOrder(k.pod, k.rt)
	done := make([]chan struct{}, len(stops))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var wg sync.WaitGroup
	errs := make([]error, len(stops))
	for i, st := range stops {
		one := stopOne{id: st.ID, name: st.Name}
		one.grace, one.message = grace(st.ID, st.Name)
		if len(st.After) > 0 {
			one.wait = func(ctx context.Context) {
				for _, j := range st.After {
					select {
					case <-done[j]:
					case <-ctx.Done():
						return
					}
				}
			}
		}
		wg.Go(func() {
			// One that could not be stopped keeps its sidecars waiting for as long
			// as their grace goes: it may still need them.
			if errs[i] = k.stop(ctx, one); errs[i] == nil {
				close(done[i])
			}
		})
	}
	wg.Wait()
	for i, st := range stops {
		if errs[i] == nil {
			stopped = append(stopped, st.Name)
		}
	}
	return stopped, errors.Join(errs...)
}

// stopSandboxes stops the sandboxes named, those that are gone already included.
func (k *stopper) stopSandboxes(ctx context.Context, ids []string) error {
	var errs []error
	for _, id := range ids {
		k.r.mon.expect(k.pod.UID, id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
		cctx, cancel := k.r.quick(ctx)
		err := k.r.o.Runtime.StopPodSandbox(cctx, id)
		cancel()
		if err != nil && !notFound(err) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			errs = append(errs, fmt.Errorf("stop sandbox %s of pod %s: %w", short(id), podsync.Ref(k.pod), err))
		}
	}
	return errors.Join(errs...)
}

func sandboxIDs(p *podsync.RuntimePod) []string {
	ids := make([]string, len(p.Sandboxes))
	for i, s := range p.Sandboxes {
		ids[i] = s.ID
	}
	return ids
}

// stopClock remembers of a pod that is being stopped until when it may take,
// and which hooks have been run, so that a repeated stop does not begin anew.
type stopClock struct {
	grace time.Duration
	until time.Time
	ran   map[string]bool
}

// stopBy returns when a stop that has this grace now must be through. It never
// moves to later; a shorter grace is measured from now.
func (r *Runtime) stopBy(uid types.UID, grace time.Duration) time.Time {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	now := r.o.Clock.Now()
	s := r.stops[string(uid)]
	switch {
	case s == nil:
		s = &stopClock{grace: grace, until: now.Add(grace), ran: map[string]bool{}}
		r.stops[string(uid)] = s
	case grace < s.grace:
		s.grace = grace
		if by := now.Add(grace); by.Before(s.until) {
			s.until = by
		}
	}
	return s.until
}

func (r *Runtime) hookRan(uid types.UID, id string) bool {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	s := r.stops[string(uid)]
	return s != nil && s.ran[id]
}

func (r *Runtime) noteHook(uid types.UID, id string) {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	if s := r.stops[string(uid)]; s != nil {
		s.ran[id] = true
	}
}

func (r *Runtime) forgetStop(uid types.UID) {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	delete(r.stops, string(uid))
}

// stillRunning returns an error that names what may run, nil if nothing may.
func stillRunning(ref string, p *podsync.RuntimePod) error {
	if !p.CouldRun() {
		return nil
	}
	e := &RunningError{Pod: ref}
	for _, c := range p.Containers {
		if c.State == podsync.ContainerRunning || c.State == podsync.ContainerUnknown {
			e.Containers = append(e.Containers, c.Name+" ("+short(c.ID)+")")
		}
	}
	for _, s := range p.Sandboxes {
		if s.Ready {
			e.Sandboxes = append(e.Sandboxes, short(s.ID))
		}
	}
	slices.Sort(e.Containers)
	return e
}
