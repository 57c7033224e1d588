package safefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxDepth bounds the descriptors that a removal holds: what lies deeper is
	// first moved to the top of the tree. A container may have made a tree that
	// is deeper than any limit on open files.
	maxDepth = 64
	// batch is how many entries of a directory are read at a time.
	batch = 1024
)

// RemoveAll removes the file or directory tree at path. It follows no symbolic
// link at path or below it, and it enters no mount: one found makes it go on
// with the rest and return a *MountedError. What does not exist is no error.
func RemoveAll(ctx context.Context, path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	defer unix.Close(parent)
	r := remover{ctx: ctx, top: -1}
	return r.remove(parent, filepath.Base(path), path, 0)
}

// RemoveEmptyDirs removes path and the directories below it as far as they hold
// nothing but directories. Files stay, and with them the directories above.
func RemoveEmptyDirs(ctx context.Context, path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	defer unix.Close(parent)
	r := remover{ctx: ctx, top: -1, dirsOnly: true}
	return r.remove(parent, filepath.Base(path), path, 0)
}

type remover struct {
	ctx      context.Context
	top      int // descriptor of the tree's root while inside it
	moved    int // names given out by flatten
	dirsOnly bool
}

func (r *remover) remove(parent int, name, path string, depth int) error {
	if err := context.Cause(r.ctx); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if !r.dirsOnly {
		switch err := unix.Unlinkat(parent, name, 0); err {
		case nil, unix.ENOENT:
			return nil
		case unix.EISDIR, unix.EPERM: // a directory; POSIX has EPERM for it
		case unix.EBUSY:
			return &MountedError{Path: path}
		default:
			return &os.PathError{Op: "remove", Path: path, Err: err}
		}
	}
	switch err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err {
	case nil, unix.ENOENT:
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
	case unix.EBUSY:
		return &MountedError{Path: path}
	case unix.ENOTDIR:
		if r.dirsOnly {
			return &os.PathError{Op: "remove directory", Path: path, Err: err}
		}
		// EPERM above was about a file: say that.
		return &os.PathError{Op: "remove", Path: path, Err: unix.EPERM}
	default:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	if depth >= maxDepth {
		return r.flatten(parent, name, path)
	}
	return r.descend(parent, name, path, depth)
}

func (r *remover) descend(parent int, name, path string, depth int) error {
	fd, err := openDir(parent, name)
	switch {
	case errors.Is(err, unix.EXDEV):
		return &MountedError{Path: path}
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	if r.top < 0 {
		r.top = fd
	}
	if err := r.children(dir, fd, path, depth); err != nil {
		return err
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		if errors.Is(err, unix.EBUSY) {
			return &MountedError{Path: path}
		}
		return &os.PathError{Op: "remove directory", Path: path, Err: err}
	}
	return nil
}

// children empties a directory. It goes on after an error, so that as much room
// as possible is given back, and returns the first one.
func (r *remover) children(dir *os.File, fd int, path string, depth int) error {
	for {
		if _, err := dir.Seek(0, 0); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
		names, _ := dir.Readdirnames(batch)
		if len(names) == 0 {
			return nil
		}
		var first error
		failed := 0
		for _, n := range names {
			if err := r.remove(fd, n, path+"/"+n, depth+1); err != nil {
				if failed++; first == nil {
					first = err
				}
			}
		}
		switch {
		case failed == len(names), failed > 0 && len(names) < batch, r.ctx.Err() != nil:
			if failed > 1 {
				return fmt.Errorf("%w (and %d more in %s)", first, failed-1, path)
			}
			return first
		}
	}
}

// flatten moves a directory that lies too deep to the top of the tree, where
// the loop over the top's entries finds it later.
func (r *remover) flatten(parent int, name, path string) error {
	for {
		r.moved++
		to := ".podsync-removing-" + strconv.Itoa(r.moved)
		switch err := unix.Renameat2(parent, name, r.top, to, unix.RENAME_NOREPLACE); {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EEXIST):
		case errors.Is(err, unix.EBUSY):
			return &MountedError{Path: path}
		default:
			return &os.PathError{Op: "remove deep directory", Path: path, Err: err}
		}
	}
}

// openDir opens a directory by its name in parent. It fails with ELOOP or
// ENOTDIR for a symbolic link and with EXDEV for a mount point, of which the
// device number alone would not tell (a bind mount keeps it).
func openDir(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(parent, name, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS, unix.EPERM: // before Linux 5.6, or an old seccomp filter
			return openDirOld(parent, name, flags)
		}
		return fd, err
	}
}

func openDirOld(parent int, name string, flags int) (int, error) {
	fd, err := unix.Openat(parent, name, flags, 0)
	if err != nil {
		return -1, err
	}
	a, err := mountID(parent)
	b, err2 := mountID(fd)
	if err = errors.Join(err, err2); err != nil || a != b {
		unix.Close(fd)
		if err == nil {
			err = unix.EXDEV
		}
		return -1, err
	}
	return fd, nil
}

// mountID returns the id of the mount that an open file lies on.
func mountID(fd int) (string, error) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("no mnt_id in fdinfo of descriptor %d", fd)
}
