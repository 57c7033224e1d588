package cri

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// ReasonResizePodInPlaceError is the reason of a resize that did not come about.
const ReasonResizePodInPlaceError = "ResizePodInPlaceError"

// resize changes the resources of what runs. The pod's cgroup allows the larger
// of what was and what is to be while that goes on, see podsync.Envelope. An
// error is noted; other containers are started all the same.
func (x *executor) resize(ctx context.Context) {
	if !x.act.ResizePod && len(x.act.Resize) == 0 {
		return
	}
	x.r.actuated.setOpen(x.pod.UID, true)
	x.changed = true
	err := x.resizeAll(ctx)
	if ctx.Err() != nil {
		return
	}
	msg := ""
	if err != nil {
		msg = words(err)
		x.errs = append(x.errs, podsync.WithReason(ReasonResizePodInPlaceError, fmt.Errorf("resize pod %s: %w", x.s.Ref(), err)))
	}
	if x.r.mon.setResizeError(x.pod.UID, msg) && err != nil {
		x.s.Warn(podsync.EventResizeError, "%s", msg)
	}
}

func (x *executor) resizeAll(ctx context.Context) error {
	if err := x.mayShrink(ctx); err != nil {
		return err
	}
	// The sandbox is told before what grows does, and after what shrinks did.
	around := podsync.Envelope(x.pod, x.rt)
	if err := x.updateSandbox(ctx, around); err != nil {
		return err
	}
	had := map[string]*corev1.ResourceRequirements{}
	for _, c := range x.rt.Containers {
		had[c.ID] = c.Actuated
	}
	for _, z := range x.act.Resize {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := x.resizeOne(ctx, z, had); err != nil {
			return err
		}
	}
	if around != x.pod {
		if err := x.updateSandbox(ctx, x.pod); err != nil {
			return err
		}
	}
	if x.pod.Spec.Resources != nil || len(x.rt.Sandboxes) > 0 && x.rt.Sandboxes[0].Actuated != nil {
		_, err := x.r.actuated.note(ctx, x.pod.UID, x.sandboxID, nil, x.pod.Spec.Resources, "")
		return err
	}
	return nil
}

// resizeOne changes one resource of one running instance and records it.
func (x *executor) resizeOne(ctx context.Context, z plan.Resize, had map[string]*corev1.ResourceRequirements) error {
	spec := x.spec(plan.Start{Kind: z.Kind, Index: z.Index, Name: z.Name}).c
	res := config.ResizedResources(&x.node, x.pod, spec, z.Resource)
	cctx, cancel := x.r.quick(ctx)
	defer cancel()
	if err := x.r.o.Runtime.UpdateContainerResources(cctx, z.ID, &runtimeapi.ContainerResources{Linux: res}); err != nil {
		x.r.actuated.doubt(x.pod.UID, z.ID)
		return fmt.Errorf("%s of container %s (%s): %w", z.Resource, z.Name, short(z.ID), err)
	}
	now, err := x.r.actuated.note(ctx, x.pod.UID, z.ID, had[z.ID], &spec.Resources, z.Resource)
	if err != nil {
		// It is done; a restart of the agent would have it done again.
		x.s.Logger().WarnContext(ctx, "resize is not recorded", "container", z.Name, "err", err)
	}
	had[z.ID] = now
	return nil
}

// updateSandbox tells the runtime what the pod has as a whole, for those that
// run a virtual machine or plugins by it. One that cannot be told is no error.
func (x *executor) updateSandbox(ctx context.Context, pod *corev1.Pod) error {
	resources, overhead := config.SandboxResources(&x.node, pod)
	cctx, cancel := x.r.quick(ctx)
	defer cancel()
	_, err := x.r.o.Runtime.UpdatePodSandboxResources(cctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: x.sandboxID, Overhead: overhead, Resources: resources})
	if err != nil && grpcstatus.Code(err) != codes.Unimplemented {
		return fmt.Errorf("sandbox %s: %w", short(x.sandboxID), err)
	}
	return nil
}

// mayShrink refuses to lower a memory limit to what is used now or less: the
// kernel would refuse it, or kill.
func (x *executor) mayShrink(ctx context.Context) error {
	for _, z := range x.act.Resize {
		if z.Resource != corev1.ResourceMemory {
			continue
		}
		spec := x.spec(plan.Start{Kind: z.Kind, Index: z.Index, Name: z.Name}).c
		limit := config.MemoryLimit(x.pod, spec)
		var old int64
		for _, c := range x.rt.Containers {
			if c.ID == z.ID {
				old = memoryLimitOf(x.rt, c)
			}
		}
		if limit == 0 || old != 0 && limit >= old {
			continue
		}
		used, err := x.memoryUse(ctx, z.ID)
		if err != nil {
			return fmt.Errorf("memory in use by container %s (%s), to lower its limit to %d bytes: %w", z.Name, short(z.ID), limit, err)
		}
		if used >= limit {
			return fmt.Errorf("container %s uses %d bytes of memory, its limit cannot become %d", z.Name, used, limit)
		}
	}
	return nil
}

// memoryLimitOf returns the limit that an instance has, 0 for none.
func memoryLimitOf(rt *podsync.RuntimePod, c *podsync.RuntimeContainer) int64 {
	if c.Actuated == nil {
		return 0
	}
	if l := c.Actuated.Limits.Memory().Value(); l > 0 {
		return l
	}
	if len(rt.Sandboxes) > 0 && rt.Sandboxes[0].Actuated != nil {
		return rt.Sandboxes[0].Actuated.Limits.Memory().Value()
	}
	return 0
}

var errNoUsage = errors.New("the runtime does not tell")

func (x *executor) memoryUse(ctx context.Context, id string) (int64, error) {
	cctx, cancel := x.r.quick(ctx)
	defer cancel()
	st, err := x.r.o.Runtime.ContainerStats(cctx, id)
	if err != nil {
		return 0, err
	}
	for _, v := range []*runtimeapi.UInt64Value{st.GetMemory().GetUsageBytes(), st.GetMemory().GetWorkingSetBytes()} {
		if v != nil {
			return int64(min(v.Value, 1<<62)), nil
		}
	}
	return 0, errNoUsage
}

// resizeSettled tells of a resize that is through: the plan has nothing of one.
func (r *Runtime) resizeSettled(s *podsync.Sync, rp *podsync.RuntimePod, act *plan.Actions) {
	if act.ResizePod || act.Over() || podsync.ResizeInProgress(s.Pod(), rp) {
		return
	}
	if r.actuated.setOpen(s.UID(), false) {
		r.mon.setResizeError(s.UID(), "")
		s.Event(corev1.EventTypeNormal, podsync.EventResizeCompleted, "the pod has the resources that it was given")
	}
}
