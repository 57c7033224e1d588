package volumes_test

import (
	"testing"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestStageContracts(t *testing.T) {
	pod := volumestest.Pod("u-1", emptyDir("disk", ""), emptyDir("mem", "Memory"), labels("meta"))
	given := func(t *testing.T, s *podsync.Sync) {
		d, err := volumes.Layout{Root: t.TempDir()}.Dirs(s.UID())
		must(t, err)
		must(t, podsync.PodDirs.Set(s, d))
	}
	t.Run("Dirs", func(t *testing.T) {
		podsynctest.Stage(t, podsynctest.StageCase{
			New: func(t *testing.T) podsync.Stage { return volumes.Dirs(volumes.Layout{Root: t.TempDir()}) },
			Pod: pod, Want: podsync.KindContinue,
		})
	})
	t.Run("Mounted", func(t *testing.T) {
		podsynctest.Stage(t, podsynctest.StageCase{
			New: func(t *testing.T) podsync.Stage { return volumes.Mounted(newNode(t).m) },
			Pod: pod, Given: given, Want: podsync.KindContinue,
		})
	})
	t.Run("Mounted waits", func(t *testing.T) {
		podsynctest.Stage(t, podsynctest.StageCase{
			New: func(t *testing.T) podsync.Stage { return volumes.Mounted(newNode(t).m) },
			Pod: volumestest.Pod("u-1", secret("key", "gone")), Given: given, Want: podsync.KindWait,
		})
	})
	t.Run("Unmounted", func(t *testing.T) {
		podsynctest.Stage(t, podsynctest.StageCase{
			New: func(t *testing.T) podsync.Stage {
				n := newNode(t)
				n.mount(pod)
				return volumes.Unmounted(n.m)
			},
			Pod: pod, Want: podsync.KindContinue,
		})
	})
}
