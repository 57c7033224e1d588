package cgroups

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// ReasonFailedCreate is the kubelet's reason for a pod cgroup that could not be made.
const ReasonFailedCreate = "FailedCreatePodContainer"

// ReasonOff is the Skip of a node that gives pods no cgroups.
const ReasonOff = "CgroupsOff"

// Ensure returns the sync stage that makes the pod's cgroup exist and keeps its
// values right. It provides podsync.CgroupParent, is named podsync.StageCgroup,
// and ends in
//
//   - Continue: the cgroup is there;
//   - Skip(CgroupsOff): the manager gives no cgroups; CgroupParent is not set;
//   - Retry with reason FailedCreatePodContainer.
//
// The kubelet kills a pod whose cgroup is missing while containers of it run.
// Here it is made again: killing would help only containers that are then
// restarted, and the next one started is bounded again either way.
func Ensure(m Manager) podsync.Stage { return ensure{m} }

type ensure struct{ m Manager }

func (ensure) Name() string { return podsync.StageCgroup }

func (ensure) Declare() podsync.Deps {
	return podsync.Deps{Provides: []podsync.AnyKey{podsync.CgroupParent}}
}

func (e ensure) Run(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	parent, err := e.parent(ctx, s)
	if err != nil {
		return podsync.FromErr(podsync.WithReason(ReasonFailedCreate, err))
	}
	if parent == "" {
		return podsync.Skip(ReasonOff)
	}
	return podsync.FromErr(podsync.CgroupParent.Set(s, parent))
}

func (e ensure) parent(ctx context.Context, s *podsync.Sync) (string, error) {
	// While a resize is under way the cgroup allows the larger of the two.
	pod := podsync.Envelope(s.Pod(), s.Runtime())
	// A sandbox that died may have lost its cgroup with it. The runtime would make
	// a bare one for the next sandbox, so look before that.
	if rp := s.Runtime(); len(rp.Sandboxes) > 0 && !rp.SandboxReady() {
		if err := e.m.Update(ctx, pod); err != nil {
			return "", err
		}
	}
	return e.m.Ensure(ctx, pod)
}

// Remove returns the terminated stage, named podsync.StageCgroupRemove, that
// removes the pod's cgroup with what may still run in it. It belongs after the
// stage that waits for the volumes, and ends in Continue or Retry.
func Remove(m Manager) podsync.Stage {
	return podsync.NewStage(podsync.StageCgroupRemove, func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
		return podsync.FromErr(m.Remove(ctx, s.UID()))
	})
}

// ErrInUse is the error of a Cleaner for a pod whose cgroup is kept because
// something else of the pod is still there. Match it with errors.Is.
var ErrInUse = errors.New("something of the pod is still in use")

// Cleaner returns the housekeeping of cgroups whose pods nobody knows. inUse
// tells whether something of the pod, its volumes, must go first; nil is never.
// While it says so, or fails, the cgroup is kept at the least CPU there is, and
// Remove returns an error that matches ErrInUse.
func Cleaner(m Manager, inUse func(ctx context.Context, uid types.UID) (bool, error)) podsync.Cleaner {
	return cleaner{m, inUse}
}

type cleaner struct {
	m     Manager
	inUse func(context.Context, types.UID) (bool, error)
}

func (cleaner) Name() string { return "cgroups" }

func (c cleaner) Pods(ctx context.Context) ([]types.UID, error) { return c.m.List(ctx) }

func (c cleaner) Remove(ctx context.Context, uid types.UID) error {
	if c.inUse == nil {
		return c.m.Remove(ctx, uid)
	}
	used, err := c.inUse(ctx, uid)
	if err == nil && !used {
		return c.m.Remove(ctx, uid)
	}
	return fmt.Errorf("keep the cgroup of pod %s: %w", uid, errors.Join(ErrInUse, err, c.m.ReduceCPU(ctx, uid)))
}
