package volumes

import (
	"context"
	"errors"
	"time"

	"github.com/podsync/sdk/podsync"
)

const (
	// objectPoll is how long a pod waits for a missing object when nobody tells
	// that objects changed.
	objectPoll = 30 * time.Second
	// refreshRetry is when a volume that could not be brought up to date is tried
	// again.
	refreshRetry = 30 * time.Second
)

// Mounted returns the stage that sets up a pod's volumes and goes on when all
// are up. A required object or key that does not exist is a Wait that ends when
// objects change, and a FailedMount event; any other failure is a Retry with
// reason FailedMount. A volume that was up and could not be brought up to date
// is an event and another try later, and holds nothing up. It needs PodDirs and
// provides PodVolumes.
func Mounted(m *Manager) podsync.Stage { return mounted{m} }

type mounted struct{ m *Manager }

var _ podsync.Declarer = mounted{}

func (mounted) Name() string { return podsync.StageVolumes }

func (mounted) Declare() podsync.Deps {
	return podsync.Deps{
		Needs:    []podsync.AnyKey{podsync.PodDirs},
		Provides: []podsync.AnyKey{podsync.PodVolumes},
	}
}

func (st mounted) Run(ctx context.Context, s *podsync.Sync) podsync.Outcome {
	v, err := st.m.mount(ctx, s.Pod())
	var pe *PodError
	switch {
	case errors.As(err, &pe) && pe.Missing():
		s.Warn(ReasonFailedMount, "%s", pe.text())
		return podsync.Wait(objectPoll, ReasonFailedMount, "%s", pe.text()).WakeOn(podsync.TopicObjectsChanged)
	case err != nil:
		return podsync.FromErr(err)
	}
	if err := podsync.PodVolumes.Set(s, v); err != nil {
		return podsync.Retry(err)
	}
	out := podsync.Continue()
	if !v.refresh.IsZero() {
		out = out.Again(v.refresh.Sub(s.Now()))
	}
	if len(v.stale) > 0 {
		stale := PodError{Op: "mount", Volumes: v.stale}
		s.Warn(ReasonFailedMount, "not up to date: %s", stale.text())
		out = out.Again(refreshRetry)
	}
	return out
}

// Unmounted returns the stage of the terminated phase that takes down a pod's
// volumes, by what is found on the disk and in the mount table. A failure, such
// as a busy mount, is a Retry with reason FailedUnmount.
func Unmounted(m *Manager) podsync.Stage {
	return podsync.NewStage(podsync.StageUnmount, func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
		return podsync.FromErr(m.Unmount(ctx, s.UID()))
	})
}
