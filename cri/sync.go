package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// Sync returns the stage podsync.StageRuntime: it brings the pod's sandbox and
// containers to what the spec asks for. Each run asks package plan for the next
// step and carries it out; a run that changed something ends in Continue with
// Again(0), so that the pod's status is published and the next step taken at
// once. A container that has to wait, for its crash-loop or image backoff, is
// named by Monitor.SetWaiting and looked at again in time; that is no error of
// the stage. Other failures are a Retry of all of them joined, after the
// containers that do not depend on them were started.
//
// It reads podsync.CgroupParent, PodDirs, PodVolumes, PullSecrets and the Extra
// lists where an earlier stage left them, and needs none of them: a site may
// leave those stages out. It provides podsync.RuntimeActions.
func (r *Runtime) Sync() podsync.Stage {
	return podsync.NewStageWith(podsync.StageRuntime, podsync.Deps{Provides: []podsync.AnyKey{podsync.RuntimeActions}}, r.sync)
}

func (r *Runtime) sync(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	rp, err := r.mon.Observe(ctx, s.UID())
	if err != nil {
		return outcome(ctx, podsync.WithReason(ReasonRuntimeStateUnknown, err))
	}
	pod := s.Pod()
	if r.actuated.assume(pod, rp) {
		r.mon.Invalidate(pod.UID)
		if rp, err = r.mon.Observe(ctx, pod.UID); err != nil {
			return outcome(ctx, podsync.WithReason(ReasonRuntimeStateUnknown, err))
		}
	}
	s.SetRuntime(rp)
	act := plan.Compute(plan.Input{Pod: pod, Runtime: rp, Hashes: r.mon.hashes(pod), Probes: r.o.Probes})
	r.resizeSettled(s, rp, &act)
	if act.Nothing() {
		if err := podsync.RuntimeActions.Set(s, podsync.Actions{}); err != nil {
			return podsync.Retry(err)
		}
		if len(rp.Waiting) > 0 && r.mon.SetWaiting(pod.UID, nil) {
			return podsync.Continue().Again(0)
		}
		if act.Over() {
			return r.over(s, rp)
		}
		return podsync.Continue()
	}
	x := &executor{r: r, s: s, pod: pod, rt: rp, act: act, node: r.o.Node(), again: -1}
	x.stop = &stopper{r: r, pod: pod, rt: rp, event: s.Event}
	return x.run(ctx)
}

// over ends the run of a pod of which nothing is to run any more. Its status
// says what became of it, save where a container never ran: then no status
// would ever be final.
func (r *Runtime) over(s *podsync.Sync, rp *podsync.RuntimePod) podsync.Outcome {
	for i := range s.Pod().Spec.InitContainers {
		spec := &s.Pod().Spec.InitContainers[i]
		if c := rp.Container(spec.Name); c != nil && plan.InitFailed(c) && !podspec.IsSidecar(spec) {
			return podsync.Continue() // the status is Failed
		}
	}
	for i := range s.Pod().Spec.Containers {
		if name := s.Pod().Spec.Containers[i].Name; rp.Container(name) == nil {
			return podsync.Fail(ReasonPodSandboxLost, fmt.Errorf(
				"pod %s: its sandbox was lost before container %s ran, and restartPolicy %s forbids to begin again",
				s.Ref(), name, s.Pod().Spec.RestartPolicy))
		}
	}
	return podsync.Continue()
}

// executor carries out one plan for one pod.
type executor struct {
	r    *Runtime
	s    *podsync.Sync
	pod  *corev1.Pod
	rt   *podsync.RuntimePod
	act  plan.Actions
	node config.Node
	stop *stopper

	done    podsync.Actions
	waiting map[string]podsync.WaitingReason
	errs    []error
	again   time.Duration    // the soonest asked for; negative for none
	blocked map[string]bool  // containers that must not be started in this run
	changed bool             // something was changed that Actions do not show
	starts  []*startOne      // what passed the crash-loop backoff
	fetch   *images.Prefetch // nil when nothing is started

	sandboxID string
	ips       []string
	handler   string
	boxConfig *runtimeapi.PodSandboxConfig
	users     *runtimeapi.UserNamespace
	imageVols map[string]*runtimeapi.ImageSpec
	hostsDone bool
	added     *podParts // the pod's parts with those made in this run; nil when none was
}

// run carries the plan out and says how the run ends.
func (x *executor) run(ctx context.Context) podsync.Outcome {
	if x.act.RestartAll && x.holdRestartAll() {
		return x.end(ctx, nil)
	}
	x.chooseStarts()
	if len(x.starts) == 0 && !x.act.CreateSandbox && !x.act.ResizePod && len(x.act.Kill)+len(x.act.Remove)+len(x.act.StopSandboxes) == 0 {
		return x.end(ctx, nil) // all that is to be started waits
	}
	end := x.r.mon.begin(x.pod.UID)
	out := x.end(ctx, x.carryOut(ctx))
	d, again := out.RetryAfter()
	end(again && d == 0)
	if x.added != nil && out.Kind() == podsync.KindContinue && len(x.errs) == 0 && !x.act.ResizePod && len(x.act.Kill)+len(x.act.Remove)+len(x.act.StopSandboxes) == 0 {
		x.r.mon.consists(x.pod.UID, x.rt, x.added)
	}
	if out.Kind() == podsync.KindRetry {
		// What was done in vain is known, so that it wakes nobody as news.
		if rp, err := x.r.mon.Observe(ctx, x.pod.UID); err == nil {
			x.s.SetRuntime(rp)
		}
	}
	return out
}

// parts returns what the pod consists of, for a part that was made to be added.
func (x *executor) parts() *podParts {
	if x.added == nil {
		x.added = partsOf(x.rt)
	}
	return x.added
}

// carryOut does the actions in their order. A returned error ends the run;
// those of single containers are collected.
func (x *executor) carryOut(ctx context.Context) error {
	defer func() {
		if x.fetch != nil {
			x.fetch.Close()
		}
	}()
	if err := x.killAndRemove(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	x.sandboxID, x.ips = x.act.SandboxID, x.rt.IPs
	x.resize(ctx)
	if len(x.starts) == 0 && !x.act.CreateSandbox {
		return nil
	}
	var err error
	if x.handler, err = x.r.runtimeHandler(ctx, x.pod); err != nil {
		return podsync.WithReason(ReasonFailedCreatePodSandBox, err)
	}
	if err := x.makeSandboxConfig(ctx); err != nil {
		return err
	}
	x.prefetch(ctx)
	if x.act.CreateSandbox {
		if err := x.createSandbox(ctx); err != nil {
			return err
		}
	}
	for _, st := range x.starts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.blocked[st.c.Name] {
			continue
		}
		if err := x.start(ctx, st); err != nil && st.Kind == plan.Init {
			break // nothing may start before it; the error is noted
		}
	}
	return ctx.Err()
}

// killAndRemove stops and removes what the plan names.
func (x *executor) killAndRemove(ctx context.Context) error {
	if x.act.KillPod {
		return x.killPod(ctx)
	}
	if len(x.act.Kill) > 0 {
		x.killOnes(ctx)
	}
	for _, rm := range x.act.Remove {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.blocked[rm.Name] {
			continue
		}
		x.changed = true
		if err := x.r.removeContainer(ctx, rm.ID); err != nil {
			x.block(rm.Name, fmt.Errorf("remove container %s (%s) of pod %s: %w", rm.Name, short(rm.ID), x.s.Ref(), err))
		}
	}
	return nil
}

// killPod stops the containers and sandboxes of a pod that is over or gets a
// new sandbox.
func (x *executor) killPod(ctx context.Context) error {
	if x.act.CreateSandbox && x.act.SandboxID != "" {
		x.s.Event(corev1.EventTypeNormal, ReasonSandboxChanged, "Pod sandbox changed (%s), it will be stopped and made anew", x.act.Sandbox)
	}
	if len(x.act.Kill)+len(x.act.StopSandboxes) == 0 {
		return nil
	}
	reasons := make(map[string]plan.Kill, len(x.act.Kill))
	for _, k := range x.act.Kill {
		reasons[k.ID] = k
	}
	killed, err := x.stop.stopAll(ctx, func(id, name string) (time.Duration, string) {
		k := reasons[id]
		return plan.Grace(x.pod, x.stop.container(name), k.Reason), k.Message
	})
	x.done.Killed = append(x.done.Killed, killed...)
	x.changed = true
	if err == nil || ctx.Err() == nil && x.act.Over() {
		err = errors.Join(err, x.stop.stopSandboxes(ctx, x.act.StopSandboxes))
	}
	return podsync.WithReason(ReasonFailedKillPod, err)
}

// killOnes stops single containers, side by side.
func (x *executor) killOnes(ctx context.Context) {
	errs := make([]error, len(x.act.Kill))
	var wg sync.WaitGroup
	for i, k := range x.act.Kill {
		one := stopOne{id: k.ID, name: k.Name, message: k.Message, grace: plan.Grace(x.pod, x.stop.container(k.Name), k.Reason)}
		wg.Go(func() { errs[i] = x.stop.stop(ctx, one) })
	}
	wg.Wait()
	for i, k := range x.act.Kill {
		if errs[i] != nil {
			x.block(k.Name, podsync.WithReason(ReasonFailedKillPod, errs[i]))
			continue
		}
		x.done.Killed = append(x.done.Killed, k.Name)
	}
}

// block keeps a container from being started in this run.
func (x *executor) block(name string, err error) {
	if x.blocked == nil {
		x.blocked = map[string]bool{}
	}
	x.blocked[name] = true
	x.errs = append(x.errs, err)
}

// wait notes why a container is not running.
func (x *executor) wait(name, reason, format string, args ...any) {
	if x.waiting == nil {
		x.waiting = map[string]podsync.WaitingReason{}
	}
	x.waiting[name] = podsync.WaitingReason{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// lookAgain asks for another run within d.
func (x *executor) lookAgain(d time.Duration) {
	if d = max(d, 0); x.again < 0 || d < x.again {
		x.again = d
	}
}

// end leaves what this run found out to those after it, and says how it ends.
func (x *executor) end(ctx context.Context, err error) podsync.Outcome {
	if e := podsync.RuntimeActions.Set(x.s, x.done); e != nil {
		return podsync.Retry(e)
	}
	if ctx.Err() != nil {
		return outcome(ctx, ctx.Err())
	}
	news := x.r.mon.SetWaiting(x.pod.UID, x.waiting)
	if err := errors.Join(append(x.errs, err)...); err != nil {
		return outcome(ctx, err)
	}
	out := podsync.Continue()
	switch {
	case x.changed || news || x.done.Any():
		return out.Again(0)
	case x.again >= 0:
		return out.Again(x.again)
	}
	return out
}

// removeContainer removes a container that is not running.
func (r *Runtime) removeContainer(ctx context.Context, id string) error {
	cctx, cancel := r.quick(ctx)
	defer cancel()
	if err := r.o.Runtime.RemoveContainer(cctx, id); err != nil && !notFound(err) {
		return err
	}
	return nil
}
