package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/volumes/internal/safefs"
	"github.com/podsync/sdk/volumes/plugin"
)

// Unmount takes down every volume of the pod that the disk or the mount table
// knows, whoever set it up: subPaths first, then what is mounted inside volumes,
// then the volumes. It goes on after a failure, and its error, a *PodError, says
// all that is left; it is then to be called again. It is idempotent. The rest of
// the pod's directory stays for Remove.
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
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
	m.forget(uid, st)
	return nil
}

func (m *Manager) unmountLocked(ctx context.Context, uid types.UID, dir string, st *podState) error {
	st.down.Store(true)
	st.current.Store(nil)
	st.vols = nil
	if fi, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return nil // nothing there, or a link or file, behind which nothing is the pod's
	}
	if failed := m.unmount(ctx, uid, dir); len(failed) > 0 {
		return &PodError{Pod: string(uid), Op: "unmount", Volumes: failed}
	}
	return nil
}

func (m *Manager) unmount(ctx context.Context, uid types.UID, dir string) []*VolumeError {
	found, err := foundVolumes(filepath.Join(dir, volumesDir))
	if err != nil {
		return []*VolumeError{{Err: err}}
	}
	subs := filepath.Join(dir, subPathsDir)
	if len(found) == 0 && !exists(subs) {
		return m.wrap("", removeIfEmpty(filepath.Join(dir, volumesDir)))
	}
	failed := m.unmountBelow(dir, func(rel string) bool {
		// A volume's own mount is its plugin's.
		parts := strings.Split(rel, "/")
		return parts[0] == subPathsDir || parts[0] == volumesDir && len(parts) > 3
	})
	failed = append(failed, m.wrap("", plugin.RemoveAll(ctx, subs))...)
	for _, f := range found {
		failed = append(failed, m.wrap(f.name, m.tearDown(ctx, uid, dir, f))...)
	}
	for _, f := range found {
		_ = os.Remove(filepath.Join(dir, volumesDir, f.plugin)) // stays while a volume is in it
		_ = os.Remove(filepath.Join(dir, pluginsDir, f.plugin))
	}
	if len(failed) == 0 {
		failed = m.wrap("", removeIfEmpty(filepath.Join(dir, volumesDir)))
	}
	return failed
}

func (m *Manager) wrap(volumeName string, err error) []*VolumeError {
	if err == nil {
		return nil
	}
	return []*VolumeError{{Volume: volumeName, Err: err}}
}

func (m *Manager) tearDown(ctx context.Context, uid types.UID, dir string, f foundVolume) error {
	r := &plugin.Removal{
		UID: uid, Volume: f.name, Host: m.host,
		Dir:     filepath.Join(dir, volumesDir, f.plugin, f.name),
		MetaDir: filepath.Join(dir, pluginsDir, f.plugin, f.name),
	}
	r.Host.Logger = m.host.Logger.With("uid", string(uid), "volume", f.name)
	if p := m.byDir[f.plugin]; p != nil {
		if err := p.TearDown(ctx, r); err != nil {
			return err
		}
		// A plugin that keeps nothing there has no say about leftovers.
		return safefs.RemoveEmptyDirs(ctx, r.Dir)
	}
	// Of a plugin that this agent does not have: unmount, but delete no data.
	if err := m.host.Mounter.Unmount(r.Dir); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	if err := safefs.RemoveEmptyDirs(ctx, r.Dir); err != nil {
		return fmt.Errorf("this agent has no plugin %q, so that only empty directories are removed: %w", f.plugin, err)
	}
	return nil
}

// unmountBelow unmounts what is mounted below the directory, the deepest first,
// as far as the path relative to the directory is wanted.
func (m *Manager) unmountBelow(dir string, want func(rel string) bool) []*VolumeError {
	paths, err := m.mountsBelow(dir)
	if err != nil {
		return []*VolumeError{{Err: err}}
	}
	var failed []*VolumeError
	for _, p := range paths {
		if want != nil && !want(p.rel) {
			continue
		}
		if err := m.host.Mounter.Unmount(p.path); err != nil {
			failed = append(failed, &VolumeError{Volume: p.volume(), Err: fmt.Errorf("unmount %s: %w", p.path, err)})
		}
	}
	return failed
}

type mountPath struct{ path, rel string }

// volume returns the name of the volume that a path belongs to, "" if none.
func (p mountPath) volume() string {
	parts := strings.Split(p.rel, "/")
	switch {
	case parts[0] == subPathsDir && len(parts) > 1:
		return parts[1]
	case parts[0] == volumesDir && len(parts) > 2:
		return parts[2]
	}
	return ""
}

// mountsBelow lists the mounts below a directory, the deepest first. One path
// is listed as often as something is mounted on it.
func (m *Manager) mountsBelow(dir string) ([]mountPath, error) {
	// The mount table has no links in its paths.
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for mounts: %w", err)
	}
	table, err := m.host.Mounter.List()
	if err != nil {
		return nil, fmt.Errorf("look for mounts: %w", err)
	}
	var out []mountPath
	for _, mp := range table {
		if rel, ok := strings.CutPrefix(mp.Path, real+"/"); ok {
			out = append(out, mountPath{mp.Path, rel})
		}
	}
	slices.SortStableFunc(out, func(a, b mountPath) int {
		return cmp.Compare(strings.Count(b.rel, "/"), strings.Count(a.rel, "/"))
	})
	return out, nil
}

// foundVolume is a volume found on the disk.
type foundVolume struct{ plugin, name string }

func foundVolumes(dir string) ([]foundVolume, error) {
	plugins, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	var out []foundVolume
	for _, p := range plugins {
		if !p.IsDir() {
			return nil, fmt.Errorf("%s is no directory of a plugin; not removed", filepath.Join(dir, p.Name()))
		}
		vols, err := readDir(filepath.Join(dir, p.Name()))
		if err != nil {
			return nil, err
		}
		for _, v := range vols {
			out = append(out, foundVolume{p.Name(), v.Name()})
		}
		if len(vols) == 0 {
			_ = os.Remove(filepath.Join(dir, p.Name()))
		}
	}
	return out, nil
}

// readDir lists a directory, empty if it does not exist. A link is no directory.
func readDir(dir string) ([]fs.DirEntry, error) {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "list", Path: dir, Err: errors.New("not a directory")}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func removeIfEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
