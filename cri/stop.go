package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podsync/sdk/podsync"
)

// StopContainers returns the stage podsync.StageStopContainers of the
// terminating phase: it runs the preStop hooks and stops all containers within
// Sync.Grace, sidecars after the others, and then the sandboxes. When the grace
// is shortened the run is cancelled and comes again with the rest; hooks that
// had ended are not run again. An error of the runtime is a Retry that goes on
// where the last try stopped, on the same clock.
func (r *Runtime) StopContainers() podsync.Stage {
	return podsync.NewStage(podsync.StageStopContainers, r.stopContainers)
}

func (r *Runtime) stopContainers(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	rp, err := r.mon.Observe(ctx, s.UID())
	if err != nil {
		return outcome(ctx, podsync.WithReason(ReasonRuntimeStateUnknown, err))
	}
	s.SetRuntime(rp)
	r.mon.SetWaiting(s.UID(), nil)
	if len(rp.Sandboxes) == 0 && !rp.CouldRun() {
		return podsync.Skip("NothingRuns")
	}
	uid := s.UID()
	end := r.mon.begin(uid)
	// The next stage looks at the runtime afresh.
	defer end(true)
	until := r.stopBy(uid, s.Grace())
	k := &stopper{r: r, pod: s.Pod(), rt: rp, event: s.Event,
		hooked: func(id string) bool { return r.hookRan(uid, id) }, ran: func(id string) { r.noteHook(uid, id) }}
	_, err = k.stopAll(ctx, func(_, _ string) (time.Duration, string) { return until.Sub(r.o.Clock.Now()), "" })
	if ctx.Err() != nil {
		return outcome(ctx, ctx.Err())
	}
	// The network goes only when no container can need it any more; a container
	// that the runtime could not stop goes with its sandbox.
	if err := errors.Join(err, k.stopSandboxes(ctx, sandboxIDs(rp))); err != nil {
		return outcome(ctx, podsync.WithReason(ReasonFailedKillPod, err))
	}
	return podsync.Continue()
}

// VerifyStopped returns the stage podsync.StageVerifyStopped: it asks the
// runtime afresh and ends in Retry, with a *RunningError, while anything of the
// pod may still run.
func (r *Runtime) VerifyStopped() podsync.Stage {
	return podsync.NewStage(podsync.StageVerifyStopped, r.verifyStopped)
}

func (r *Runtime) verifyStopped(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	r.mon.Invalidate(s.UID())
	rp, err := r.mon.Observe(ctx, s.UID())
	if err != nil {
		return outcome(ctx, podsync.WithReason(ReasonRuntimeStateUnknown, fmt.Errorf("verify that the pod stopped: %w", err)))
	}
	s.SetRuntime(rp)
	if err := stillRunning(s.Ref(), rp); err != nil {
		return podsync.Retry(err)
	}
	r.forgetStop(s.UID())
	return podsync.Continue()
}
