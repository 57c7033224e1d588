package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podsync/sdk/volumes/internal/safefs"
)

// maxDepth bounds the descriptors held while going through a tree.
const maxDepth = 512

// Apply gives the tree at path to the group. Links change their group and lead
// nowhere; other file systems mounted below are left alone. Containers may be
// using the tree meanwhile: every file is opened without following links first
// and changed through its handle. Unlike the kubelet it reports what it could
// not change. It ends early when ctx does.
func Apply(ctx context.Context, path string, o Options) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "set group", Path: path, Err: err}
	}
	defer unix.Close(parent)
	a := applier{ctx: ctx, o: o}
	return a.entry(parent, filepath.Base(path), path, 0)
}

type applier struct {
	ctx context.Context
	o   Options
	dev uint64
}

func (a *applier) entry(parent int, name, path string, depth int) error {
	if err := context.Cause(a.ctx); err != nil {
		return fmt.Errorf("set group of %s: %w", path, err)
	}
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if depth > 0 && errors.Is(err, unix.ENOENT) { // a container removed it
			return nil
		}
		return &fs.PathError{Op: "set group", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "set group", Path: path, Err: err}
	}
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	switch {
	case depth == 0:
		a.dev = uint64(st.Dev)
		if a.o.onMismatch() && rootMatches(fi.Mode(), int64(st.Gid), a.o) {
			return nil
		}
	case uint64(st.Dev) != a.dev:
		return nil
	}
	// Contents first: a root that matches then vouches for all that is below.
	if fi.IsDir() {
		if depth >= maxDepth {
			return fmt.Errorf("set group of %s: directories are nested more than %d deep", path, maxDepth)
		}
		if err := a.children(fd, path, depth); err != nil {
			return err
		}
	}
	return a.change(fd, path, int64(st.Gid), fi.Mode())
}

func (a *applier) change(fd int, path string, gid int64, mode fs.FileMode) error {
	if gid != a.o.Group {
		if err := unix.Fchownat(fd, "", -1, int(a.o.Group), unix.AT_EMPTY_PATH); err != nil {
			return &fs.PathError{Op: "set group", Path: path, Err: err}
		}
	}
	if mode&fs.ModeSymlink != 0 {
		return nil
	}
	// A change of group clears setuid and setgid of executables: set the mode then too.
	if want := Mode(mode, a.o.ReadOnly); want != mode || gid != a.o.Group {
		if err := os.Chmod(safefs.FDPath(fd), want); err != nil {
			return &fs.PathError{Op: "set mode", Path: path, Err: errors.Unwrap(err)}
		}
	}
	return nil
}

func (a *applier) children(fd int, path string, depth int) error {
	rd, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "set group", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(rd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	for _, n := range names {
		if err := a.entry(fd, n, path+"/"+n, depth+1); err != nil {
			return err
		}
	}
	return nil
}
