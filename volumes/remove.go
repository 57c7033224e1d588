package volumes

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/plugin"
)

// Pods lists the pods that have a directory. Entries that are no pod's are left
// out, and left alone.
func (m *Manager) Pods(ctx context.Context) ([]types.UID, error) {
	entries, err := readDir(m.layout.Pods())
	if err != nil {
		return nil, fmt.Errorf("list pod directories: %w", err)
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() && validUID(e.Name()) {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	return uids, context.Cause(ctx)
}

// Remove unmounts the pod's volumes and removes its whole directory, without
// following links and without entering what is still mounted in it: that is
// unmounted first, and when it cannot be, nothing more is deleted and the error
// says so. It is idempotent, and to be called again after an error.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	dir, err := m.layout.PodDir(uid)
	if err != nil {
		return nil // no directory can have been made for it
	}
	st, err := m.acquire(ctx, uid)
	if err != nil {
		return err
	}
	defer m.release(st)
	if err := m.unmountLocked(ctx, uid, dir, st); err != nil {
		return err
	}
	err = plugin.RemoveAll(ctx, dir)
	var mounted *MountedError
	if errors.As(err, &mounted) {
		if failed := m.unmountBelow(dir, nil); len(failed) > 0 {
			return &PodError{Pod: string(uid), Op: "unmount", Volumes: failed}
		}
		err = plugin.RemoveAll(ctx, dir)
	}
	if err != nil {
		return fmt.Errorf("remove the directory of pod %s: %w", uid, err)
	}
	m.forget(uid, st)
	return nil
}

// Cleaner returns what the agent needs to find and remove the directories of
// pods that nobody knows any more.
func Cleaner(m *Manager) podsync.Cleaner { return cleaner{m} }

type cleaner struct{ m *Manager }

func (cleaner) Name() string                                    { return "pod directories" }
func (c cleaner) Pods(ctx context.Context) ([]types.UID, error) { return c.m.Pods(ctx) }
func (c cleaner) Remove(ctx context.Context, uid types.UID) error {
	return c.m.Remove(ctx, uid)
}
