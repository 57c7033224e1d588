//go:build !linux

package safefs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes the file or directory tree at path without following links.
// Outside Linux nothing is mounted below a pod's directory, and mounts are not
// looked for.
func RemoveAll(ctx context.Context, path string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer root.Close()
	return root.RemoveAll(filepath.Base(path))
}

// RemoveEmptyDirs removes path and the directories below it as far as they hold
// nothing but directories.
func RemoveEmptyDirs(ctx context.Context, path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err := RemoveEmptyDirs(ctx, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

// OpenBeneath opens the path sub below the directory root without leaving it;
// with create, missing directories are made.
func OpenBeneath(root, sub string, create bool) (*os.File, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if create {
		if _, err := r.Stat(sub); errors.Is(err, fs.ErrNotExist) {
			if err := r.MkdirAll(sub, 0o777); err != nil {
				return nil, err
			}
		}
	}
	return r.Open(sub)
}

// Reopen returns a second handle of the same file.
func Reopen(h *os.File) (*os.File, error) { return os.Open(h.Name()) }

// Exists tells whether there is something at the path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
