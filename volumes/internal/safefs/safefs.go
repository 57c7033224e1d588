// Package safefs works on directory trees that a container may have written
// to, and may be writing to right now: it removes them and looks up paths in
// them without ever being led out by a symbolic link or a mount.
package safefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MountedError says that a tree was not removed, or not wholly, because
// something is mounted in it. It is worth trying again after an unmount.
type MountedError struct{ Path string }

// Error names the mount point.
func (e *MountedError) Error() string { return e.Path + " is still a mount point" }

// EscapeError says that a path leads out of the directory it must stay in.
type EscapeError struct {
	// Path is the path asked for, relative to that directory.
	Path string
	// Why is for people and holds no path of the host.
	Why string
}

// Error shows the relative path only.
func (e *EscapeError) Error() string {
	return fmt.Sprintf("%q leads out of the volume: %s", e.Path, e.Why)
}

// ErrNotRegular says that a file is none that can be read like a file.
var ErrNotRegular = errors.New("not a regular file")

// MakeDirs makes the directory and its missing parents, each with exactly the
// permissions given, whatever the process's umask. Directories that exist are
// left as they are.
func MakeDirs(path string, perm fs.FileMode) error {
	switch fi, err := os.Stat(path); {
	case err == nil && fi.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("make directory %s: there is something else of that name", path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("make directory: %w", err)
	}
	if parent := filepath.Dir(path); parent != path {
		if err := MakeDirs(parent, perm); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, perm); err != nil {
		// Somebody else may have made it meanwhile; or a link is there that leads
		// to nothing.
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return nil
		}
		return fmt.Errorf("make directory: %w", err)
	}
	if err := os.Chmod(path, perm); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}
