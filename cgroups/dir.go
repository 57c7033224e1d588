package cgroups

import (
	"fmt"
	"path/filepath"
)

// NewDir makes a Host that keeps its cgroups as ordinary directories below root,
// in cgroup v2's format, and each value as a file: for tests, dry runs and hosts
// without privileges. root must exist. It bounds nothing.
func NewDir(root string, o Options) (*Host, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("cgroup directory %q: %w", root, err)
	}
	l := layout{v2: true, plain: true, dirs: []string{abs}, made: []int{0}}
	t := plainTree{root: abs}
	if _, err := t.subdirs(abs); err != nil {
		return nil, fmt.Errorf("cgroup directory: %w", err)
	}
	return newHost(o, l, t, nil)
}
