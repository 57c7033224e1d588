package cgroups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

const defaultRoot = "/sys/fs/cgroup"

// New makes the Manager of this machine. It finds out what is mounted, and fails
// when a controller that pods need is not there (*MissingControllersError), or
// when the systemd driver is wanted and systemd does not run; it makes nothing
// yet. It needs to be allowed to write to the tree: root, or a delegated
// CgroupRoot.
func New(o Options) (*Host, error) {
	if o.Root == "" {
		o.Root = defaultRoot
	}
	root := filepath.Clean(o.Root)
	l, err := detect(root, host{kind: kindOf, mounts: mounts})
	if err != nil {
		return nil, err
	}
	if o.Values.HugePageSizes == nil && hasHugetlb(l) {
		o.Values.HugePageSizes = cgroups.HugePageSizes()
	}
	var u unitMaker
	if o.Driver == Systemd {
		if u, err = newSystemd(&l, o.Weight); err != nil {
			return nil, err
		}
	}
	return newHost(o, l, kernelTree{}, u)
}

// hasHugetlb tells whether the hugetlb controller is there to be written to.
func hasHugetlb(l layout) bool {
	if !l.v2 {
		_, ok := l.of[controllerHugetlb]
		return ok
	}
	s, err := cgroups.ReadFile(l.dirs[0], "cgroup.controllers")
	return err == nil && slices.Contains(strings.Fields(s), controllerHugetlb)
}

func kindOf(path string) (fsKind, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fsOther, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return fsCgroup2, nil
	}
	return fsOther, nil
}

func mounts() ([]mount, error) {
	infos, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	out := make([]mount, 0, len(infos))
	for _, m := range infos {
		out = append(out, mount{point: m.Mountpoint, v2: m.FSType == "cgroup2", options: strings.Split(m.VFSOptions, ",")})
	}
	return out, nil
}

// kernelTree is the kernel's. Files are read and written through the opencontainers
// library, which refuses what is not a cgroup file and follows no link out.
type kernelTree struct{}

func (kernelTree) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }

func (kernelTree) rmdir(dir string) error {
	if err := unix.Rmdir(dir); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

func (kernelTree) read(dir, file string) (string, error) { return cgroups.ReadFile(dir, file) }
func (kernelTree) write(dir, file, value string) error   { return cgroups.WriteFile(dir, file, value) }
func (kernelTree) pids(dir string) ([]int, error)        { return cgroups.GetPids(dir) }

func (kernelTree) subdirs(dir string) ([]string, error) {
	ents, err := os.ReadDir(dir)
	var out []string
	for _, e := range ents {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func (kernelTree) kill(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}
