package volumes

import (
	"context"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/internal/safefs"
)

// Dirs returns the stage that makes a pod's directories: pods/<uid> and in it
// volumes, plugins and containers, all of mode 0750. It provides PodDirs.
//
// What it made it takes for there as long as the pod does not change and its
// runs do not fail, so that a pod in good order costs it no look at the disk.
func Dirs(l Layout) podsync.Stage {
	return &dirs{layout: l, made: map[types.UID]madeDirs{}, sweepAt: 128}
}

type dirs struct {
	layout  Layout
	mu      sync.RWMutex
	made    map[types.UID]madeDirs
	sweepAt int // forget gone pods when there are so many entries
}

// madeDirs are directories that were there when the stage last looked.
type madeDirs struct {
	// pod is the object the agent had of the pod then. A pod that was removed
	// and came back is another object.
	pod  weak.Pointer[corev1.Pod]
	dirs podsync.Dirs
}

var _ podsync.Declarer = (*dirs)(nil)

func (*dirs) Name() string { return podsync.StageDirs }

func (*dirs) Declare() podsync.Deps {
	return podsync.Deps{Provides: []podsync.AnyKey{podsync.PodDirs}}
}

func (d *dirs) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	pod := s.Pod()
	p, known := d.known(pod)
	if !known || s.Attempt() > 0 {
		var err error
		if p, err = d.layout.Dirs(pod.UID); err != nil {
			// No later run can make a directory of this name.
			return podsync.Fail("InvalidPod", err)
		}
		if err := d.make(p); err != nil {
			return podsync.Retry(podsync.WithReason(ReasonFailedMount, err))
		}
		d.note(pod, p)
	}
	return podsync.FromErr(podsync.PodDirs.Set(s, p))
}

func (d *dirs) make(p podsync.Dirs) error {
	// Plugins is made last: where it is, the others are.
	if safefs.Exists(p.Plugins) {
		return nil
	}
	if err := d.layout.Validate(); err != nil {
		return err
	}
	return makePodDirs(p)
}

func (d *dirs) known(pod *corev1.Pod) (podsync.Dirs, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	m, ok := d.made[pod.UID]
	return m.dirs, ok && m.pod.Value() == pod
}

func (d *dirs) note(pod *corev1.Pod, p podsync.Dirs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.made) >= d.sweepAt {
		for uid, m := range d.made {
			if m.pod.Value() == nil {
				delete(d.made, uid)
			}
		}
		d.sweepAt = max(128, 2*len(d.made))
	}
	d.made[pod.UID] = madeDirs{pod: weak.Make(pod), dirs: p}
}
