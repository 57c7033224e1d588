package e2e_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"k8s.io/apimachinery/pkg/types"
)

// leftovers lists what is there of a pod, or of any when uid is "": sandboxes,
// containers, mounts, cgroups, directories, addresses, network namespaces.
func (r *rig) leftovers(ctx context.Context, uid types.UID) (left []string, err error) {
	add := func(format string, a ...any) { left = append(left, fmt.Sprintf(format, a...)) }
	mine := func(s string) bool { return strings.Contains(s, string(uid)) }
	sandboxes, err := r.cri().ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, s := range sandboxes {
		if uid == "" || s.Metadata.Uid == string(uid) {
			add("sandbox %s of %s, %s", s.Id[:12], s.Metadata.Name, s.State)
		}
	}
	containers, err := r.cri().ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if uid == "" || c.Labels["io.kubernetes.pod.uid"] == string(uid) {
			add("container %s, %s, %s", c.Id[:12], c.Metadata.Name, c.State)
		}
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Mountpoint, r.root+"/") && !(uid == "" && strings.HasPrefix(m.Mountpoint, r.Root()) && strings.Contains(m.Mountpoint, "/netns/")), false
	})
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if mine(m.Mountpoint) {
			add("mount %s", m.Mountpoint)
		}
	}
	for _, c := range r.cgroups(func(name string) bool {
		return strings.HasPrefix(name, "pod") && !strings.HasPrefix(name, "podsync-") && mine(name)
	}) {
		add("cgroup %s", c)
	}
	for _, pattern := range []string{r.root + "/pods/*", r.root + "/status/*", r.logs() + "/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if mine(filepath.Base(f)) {
				add("file %s", f)
			}
		}
	}
	if uid == "" {
		for _, a := range r.addresses() {
			add("address %s", a)
		}
	}
	return left, nil
}

// addresses are the pod addresses that are given out.
func (r *rig) addresses() (addrs []string) {
	found, _ := filepath.Glob(filepath.Join(r.Root(), "ipam", r.Network(), "*"))
	for _, f := range found {
		if net.ParseIP(filepath.Base(f)) != nil {
			addrs = append(addrs, filepath.Base(f))
		}
	}
	return addrs
}

// cgroups lists the directories below the rig's cgroup root, in all
// hierarchies, whose name is as asked.
func (r *rig) cgroups(ok func(name string) bool) (found []string) {
	for _, h := range hierarchies() {
		_ = filepath.WalkDir(filepath.Join(h, r.CgroupRoot()), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && ok(d.Name()) {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// hierarchies are where cgroups are mounted.
func hierarchies() []string {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup" && m.FSType != "cgroup2", false
	})
	if err != nil {
		return nil
	}
	var dirs []string
	for _, m := range mounts {
		dirs = append(dirs, m.Mountpoint)
	}
	return dirs
}

// exists tells whether there is something at the path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
