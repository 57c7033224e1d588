package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/volumes/internal/safefs"
)

// errNoRight is what the pod's owner is told when the agent may not mount.
var errNoRight = &plainError{"the agent has no right to mount, which a subPath needs"}

// bindSubPath finds the subPath in the volume, making directories that are
// missing, and binds exactly what it found to a place that no container can
// write to. What is bound there already is used again if it is the same file.
func (m *Manager) bindSubPath(uid types.UID, vol *volume, container string, index int, subPath string) (string, error) {
	target, err := m.layout.SubPath(uid, vol.spec.Name, container, index)
	if err != nil {
		return "", err
	}
	h, err := safefs.OpenBeneath(vol.mounted.Path, subPath, true)
	if err != nil {
		return "", err
	}
	defer h.Close()
	fi, err := h.Stat()
	if err != nil {
		return "", err
	}
	if m.host.Unprivileged {
		return filepath.Join(vol.mounted.Path, subPath), nil
	}
	bound, err := m.boundTo(target, fi)
	if err != nil || bound {
		return target, err
	}
	if err := makeTarget(target, fi.IsDir()); err != nil {
		return "", err
	}
	// The path of the open file in /proc leads nowhere else, whatever is renamed
	// meanwhile. The process is named, because a mounter may start another one.
	source := "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.FormatUint(uint64(h.Fd()), 10)
	if err := m.host.Mounter.Mount(source, target, "", []string{"bind"}); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("%w: %w", errNoRight, err)
		}
		return "", fmt.Errorf("bind subPath: %w", err)
	}
	return target, nil
}

// boundTo tells whether target is a mount of that file, and unmounts it if it is
// one of another.
func (m *Manager) boundTo(target string, file fs.FileInfo) (bool, error) {
	for range 8 { // mounts may lie upon each other
		mounted, err := m.host.Mounter.IsMountPoint(target)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil || !mounted {
			return false, err
		}
		if now, err := os.Stat(target); err == nil && os.SameFile(now, file) {
			return true, nil
		}
		if err := m.host.Mounter.Unmount(target); err != nil {
			return false, fmt.Errorf("unmount a former subPath: %w", err)
		}
	}
	return false, fmt.Errorf("unmount a former subPath: %w", &MountedError{Path: target})
}

// makeTarget makes what the subPath is bound on: a directory on a directory, a
// file on anything else.
func makeTarget(target string, dir bool) error {
	if err := safefs.MakeDirs(filepath.Dir(target), dirPerm); err != nil {
		return err
	}
	if fi, err := os.Lstat(target); err == nil {
		if fi.IsDir() == dir && (dir || fi.Mode().IsRegular()) {
			return nil
		}
		if err := os.Remove(target); err != nil {
			return err
		}
	}
	if dir {
		return safefs.MakeDirs(target, dirPerm)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}
