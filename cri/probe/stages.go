package probe

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// The names of the stages.
const (
	// StageProbes is the stage of the sync phase.
	StageProbes = "probes"
	// StageStopProbes is the stage of the terminating phase.
	StageStopProbes = "stop-probes"
)

// Install adds the probes to a plan, as a podsync.Component: StageProbes before
// the runtime stage, so that it knows what runs before the planner asks, and
// StageStopProbes before the containers are stopped.
func (m *Manager) Install(p *podsync.Plan) {
	p.Sync.Before(podsync.StageRuntime, m.Stage())
	p.Terminating.Before(podsync.StageStopContainers, m.StopStage())
}

var _ podsync.Component = (*Manager)(nil)

// Stage returns the stage that tells the Manager of the pod and its containers.
// It makes no call and always continues.
func (m *Manager) Stage() podsync.Stage { return watch{m} }

type watch struct{ m *Manager }

var _ podsync.Prompt = watch{}

func (watch) Name() string              { return StageProbes }
func (watch) Prompt(*podsync.Sync) bool { return true }

func (st watch) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if !Has(s.Pod()) {
		return podsync.Skip("NoProbes")
	}
	st.m.Watch(s.Pod(), s.Runtime())
	return podsync.Continue()
}

// StopStage returns the stage that ends liveness and startup probes of a pod that
// is being stopped. It always continues.
func (m *Manager) StopStage() podsync.Stage { return stop{m} }

type stop struct{ m *Manager }

func (stop) Name() string { return StageStopProbes }

func (st stop) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if !Has(s.Pod()) {
		return podsync.Skip("NoProbes")
	}
	st.m.Stopping(s.UID())
	st.m.Watch(s.Pod(), s.Runtime())
	return podsync.Continue()
}

// Cleaner forgets pods that nobody knows any more.
func (m *Manager) Cleaner() podsync.Cleaner { return cleaner{m} }

type cleaner struct{ m *Manager }

func (cleaner) Name() string { return "probes" }

// Pods implements podsync.Cleaner.
func (c cleaner) Pods(context.Context) ([]types.UID, error) {
	c.m.mu.RLock()
	defer c.m.mu.RUnlock()
	uids := make([]types.UID, 0, len(c.m.pods))
	for uid := range c.m.pods {
		uids = append(uids, uid)
	}
	return uids, nil
}

// Remove implements podsync.Cleaner.
func (c cleaner) Remove(_ context.Context, uid types.UID) error {
	c.m.Forget(uid)
	return nil
}
