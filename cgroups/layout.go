package cgroups

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// fsKind is the type of a file system, as far as it matters here.
type fsKind int

const (
	fsOther fsKind = iota
	fsCgroup2
)

// mount is a mounted cgroup hierarchy, from mountinfo.
type mount struct {
	point string
	// v2 tells cgroup2 from cgroup.
	v2 bool
	// options are the super block's; for v1 they include the controllers.
	options []string
}

// host is what detect asks of the machine.
type host struct {
	kind   func(path string) (fsKind, error)
	mounts func() ([]mount, error)
}

// layout says where a node's hierarchies are.
type layout struct {
	v2 bool
	// dirs are the mounts of every hierarchy in which a runtime may leave a pod's
	// cgroup. Finding and removing both use exactly this list, or a pod found in
	// one that is not removed from would be reported for ever.
	dirs []string
	// made are the indexes into dirs of the hierarchies in which this package
	// makes cgroups, since it writes values there. In the others the runtime does.
	made []int
	// of gives the index into dirs for a controller that v1 mounts. On v2 all
	// are in the one hierarchy.
	of map[string]int
	// plain: not a kernel's tree; nothing is there but what was written.
	plain bool
}

// detect finds the layout. The file system of root alone decides between v1 and
// v2: a hybrid host has a cgroup2 mount too, without the controllers.
func detect(root string, h host) (layout, error) {
	kind, err := h.kind(root)
	if err != nil {
		return layout{}, fmt.Errorf("find out the cgroup version of %s: %w", root, err)
	}
	if kind == fsCgroup2 {
		return layout{v2: true, dirs: []string{root}, made: []int{0}}, nil
	}
	mounts, err := h.mounts()
	if err != nil {
		return layout{}, fmt.Errorf("list the cgroup mounts: %w", err)
	}
	l := layout{of: map[string]int{}}
	for _, m := range mounts {
		if filepath.Dir(m.point) != root || slices.Contains(l.dirs, m.point) {
			continue
		}
		i := len(l.dirs)
		l.dirs = append(l.dirs, m.point)
		if m.v2 {
			continue
		}
		for _, c := range []string{controllerCPU, controllerMemory, controllerPids, controllerHugetlb} {
			if _, seen := l.of[c]; !seen && slices.Contains(m.options, c) {
				l.of[c] = i
			}
		}
		for _, at := range l.of {
			if at == i {
				l.made = append(l.made, i)
				break
			}
		}
	}
	var missing []string
	for _, c := range []string{controllerCPU, controllerMemory, controllerPids} {
		if _, ok := l.of[c]; !ok {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return layout{}, &MissingControllersError{Cgroup: root, Missing: missing,
			Err: errors.New("no such cgroup v1 hierarchy is mounted below it")}
	}
	return l, nil
}

// index returns the hierarchy of a controller; ok is false where v1 mounts none.
func (l *layout) index(controller string) (i int, ok bool) {
	if l.v2 {
		return 0, true
	}
	i, ok = l.of[controller]
	return i, ok
}

func (l *layout) String() string {
	switch {
	case l.plain:
		return "directory " + l.dirs[0]
	case l.v2:
		return "cgroup v2 at " + l.dirs[0]
	default:
		return "cgroup v1 at " + strings.Join(l.dirs, ", ")
	}
}
