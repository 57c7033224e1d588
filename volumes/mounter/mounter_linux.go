// Package mounter mounts by system call. The mounter of k8s.io/mount-utils
// starts a mount(8) process, under systemd-run if there is one, for every mount;
// for the tmpfs and bind mounts of a pod that takes longer than all the rest of
// its volumes. What needs a helper program (nfs, cifs, fuse) still goes there.
package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	mount "k8s.io/mount-utils"
)

// New returns a mounter that makes bind mounts and mounts of file systems that
// live in the kernel alone (tmpfs, hugetlbfs and the like) by system call and
// leaves the rest to k8s.io/mount-utils. Its Unmount follows no link and does
// nothing where nothing is mounted. Errors match those of the system
// (errors.Is(err, fs.ErrPermission)). Safe for concurrent use.
func New() mount.Interface {
	return &mounter{helper: sync.OnceValue(func() mount.Interface { return mount.NewWithoutSystemd("") })}
}

type mounter struct {
	helper func() mount.Interface // starts processes to learn about them: only when needed
}

var _ mount.Interface = (*mounter)(nil)

func direct(fstype string, flags uintptr) bool {
	if flags&(unix.MS_BIND|unix.MS_REMOUNT) != 0 {
		return true
	}
	switch fstype {
	case "tmpfs", "hugetlbfs", "ramfs", "proc", "sysfs", "mqueue":
		return true
	}
	return false
}

// Mount mounts source at target.
func (m *mounter) Mount(source, target, fstype string, options []string) error {
	return m.mount(source, target, fstype, options, nil)
}

// MountSensitive is Mount with options that must not be shown.
func (m *mounter) MountSensitive(source, target, fstype string, options, sensitive []string) error {
	return m.mount(source, target, fstype, options, sensitive)
}

// MountSensitiveWithoutSystemd is MountSensitive: systemd is never asked.
func (m *mounter) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitive []string) error {
	return m.mount(source, target, fstype, options, sensitive)
}

// MountSensitiveWithoutSystemdWithMountFlags also passes flags to mount(8).
func (m *mounter) MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype string, options, sensitive, flags []string) error {
	if len(flags) == 0 {
		return m.mount(source, target, fstype, options, sensitive)
	}
	return m.helper().MountSensitiveWithoutSystemdWithMountFlags(source, target, fstype, options, sensitive, flags)
}

func (m *mounter) mount(source, target, fstype string, options, sensitive []string) error {
	flags, data := parse(append(append([]string{}, options...), sensitive...))
	if !direct(fstype, flags) {
		return m.helper().MountSensitiveWithoutSystemd(source, target, fstype, options, sensitive)
	}
	const onlyAtRemount = uintptr(unix.MS_BIND | unix.MS_REC)
	bind := flags&unix.MS_BIND != 0 && flags&unix.MS_REMOUNT == 0
	first := flags
	if bind { // the kernel ignores other flags at the first call
		first = flags & onlyAtRemount
	}
	if err := unix.Mount(source, target, fstype, first, strings.Join(data, ",")); err != nil {
		what := fstype
		if bind {
			what = "bind"
		}
		return fmt.Errorf("%s mount on %s: %w", what, target, err)
	}
	if bind && flags&^onlyAtRemount != 0 {
		if err := m.restrict(target, flags); err != nil {
			return errors.Join(fmt.Errorf("bind mount on %s: set options: %w", target, err), m.Unmount(target))
		}
	}
	return nil
}

// restrict sets the options of a bind mount, keeping those that the file system
// behind it has: without the right to clear them the call would fail.
func (m *mounter) restrict(target string, flags uintptr) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	const kept = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	return unix.Mount("", target, "", flags&^unix.MS_REC|unix.MS_REMOUNT|uintptr(st.Flags)&kept, "")
}

// parse splits mount options into flags and what the file system gets.
func parse(options []string) (flags uintptr, data []string) {
	for _, o := range options {
		switch o {
		case "", "defaults", "rw":
		case "bind":
			flags |= unix.MS_BIND
		case "rbind":
			flags |= unix.MS_BIND | unix.MS_REC
		case "remount":
			flags |= unix.MS_REMOUNT
		case "ro":
			flags |= unix.MS_RDONLY
		case "noexec":
			flags |= unix.MS_NOEXEC
		case "nosuid":
			flags |= unix.MS_NOSUID
		case "nodev":
			flags |= unix.MS_NODEV
		case "noatime":
			flags |= unix.MS_NOATIME
		case "relatime":
			flags |= unix.MS_RELATIME
		default:
			data = append(data, o)
		}
	}
	return flags, data
}

// Unmount unmounts what is mounted last at target. It is no error when nothing
// is, or when target does not exist. A busy mount stays.
func (m *mounter) Unmount(target string) error {
	switch err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err {
	case nil, unix.ENOENT:
		return nil
	case unix.EINVAL: // not a mount point, or a mount that is locked to another
		if is, err := m.IsMountPoint(target); err == nil && is {
			return &os.PathError{Op: "unmount", Path: target, Err: unix.EINVAL}
		}
		return nil
	default:
		return &os.PathError{Op: "unmount", Path: target, Err: err}
	}
}

// List returns the mount table.
func (m *mounter) List() ([]mount.MountPoint, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	out := make([]mount.MountPoint, len(infos))
	for i, mi := range infos {
		out[i] = mount.MountPoint{Device: mi.Source, Path: mi.Mountpoint, Type: mi.FSType, Opts: strings.Split(mi.Options, ",")}
	}
	return out, nil
}

// IsMountPoint tells whether something is mounted at the path itself; a link is
// never a mount point. A path that does not exist is an error that matches
// fs.ErrNotExist.
func (m *mounter) IsMountPoint(path string) (bool, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, fs.ErrNotExist
		}
		return false, err
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		return false, nil
	}
	is, err := mountinfo.Mounted(path)
	if err != nil {
		return false, fmt.Errorf("look for a mount: %w", err)
	}
	return is, nil
}

// IsLikelyNotMountPoint is the opposite of IsMountPoint and as exact.
func (m *mounter) IsLikelyNotMountPoint(path string) (bool, error) {
	is, err := m.IsMountPoint(path)
	return !is, err
}

// CanSafelySkipMountPointCheck is true: unmounting what is not mounted is no error.
func (m *mounter) CanSafelySkipMountPointCheck() bool { return true }

// GetMountRefs returns the other places where what is mounted at path is mounted.
func (m *mounter) GetMountRefs(path string) ([]string, error) { return m.helper().GetMountRefs(path) }
