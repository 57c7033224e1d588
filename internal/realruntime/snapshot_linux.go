package realruntime

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Snapshot is what a machine has of the things that pods are made of. Take one before and ask it for
// [Snapshot.Leaks] after. Whatever starts pods meanwhile shows up too; where several do, use
// [Containerd.Leaks].
type Snapshot struct {
	items map[string]bool // "kind name"
}

// TakeSnapshot looks at this machine: mounts, network interfaces and namespaces, the cgroups of pods and
// containers, the processes in other namespaces and of the pinned programs, and cached CNI results.
func TakeSnapshot() (Snapshot, error) {
	s := Snapshot{items: map[string]bool{}}
	for _, look := range []func(Snapshot) error{lookMounts, lookLinks, lookCgroups, lookProcesses, lookFiles} {
		if err := look(s); err != nil {
			return Snapshot{}, fmt.Errorf("take a snapshot of the machine: %w", err)
		}
	}
	return s, nil
}

// Leaks lists what is there now and was not before, one line each, sorted.
func (s Snapshot) Leaks() ([]string, error) {
	now, err := TakeSnapshot()
	if err != nil {
		return nil, err
	}
	var leaks []string
	for _, item := range slices.Sorted(maps.Keys(now.items)) {
		if !s.items[item] {
			leaks = append(leaks, item)
		}
	}
	return leaks, nil
}

func (s Snapshot) add(kind, name string) { s.items[kind+" "+name] = true }

func lookMounts(s Snapshot) error {
	mounts, err := mountinfo.GetMounts(nil)
	for _, m := range mounts {
		s.add("mount", m.Mountpoint)
	}
	return err
}

func lookLinks(s Snapshot) error {
	links, err := os.ReadDir("/sys/class/net")
	for _, l := range links {
		s.add("interface", l.Name())
	}
	return err
}

// lookCgroups takes the cgroups that container software makes; the system's services come and go by themselves.
func lookCgroups(s Snapshot) error {
	hierarchies, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		_ = filepath.WalkDir(h, func(path string, d fs.DirEntry, err error) error {
			rel := strings.TrimPrefix(path, h)
			if err == nil && d.IsDir() && (strings.Contains(rel, "podsync") || strings.Contains(rel, "kubepods") || strings.Contains(rel, "k8s.io")) {
				s.add("cgroup", path)
			}
			return nil
		})
	}
	return nil
}

func lookProcesses(s Snapshot) error {
	all, err := processes()
	if err != nil {
		return err
	}
	own := map[string]string{}
	for _, kind := range []string{"pid", "net", "mnt"} {
		if own[kind], err = os.Readlink("/proc/self/ns/" + kind); err != nil {
			return err
		}
	}
	for _, p := range all {
		name := filepath.Base(p.args[0])
		foreign := slices.Contains(programs(), name) || name == "ctr" || name == "edgeagent"
		for kind, mine := range own {
			ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", p.pid, kind))
			if err != nil || ns == mine {
				continue // gone, or a kernel thread's
			}
			foreign = true
			s.add("namespace", ns)
		}
		if foreign {
			s.add("process", fmt.Sprintf("%d %s", p.pid, strings.Join(p.args, " ")))
		}
	}
	return nil
}

// lookFiles takes what has a fixed place outside of any root directory.
func lookFiles(s Snapshot) error {
	for _, pattern := range []string{
		"/run/containerd", "/run/containerd/*", "/run/containerd/s/*", "/run/netns/*", "/run/podsync-*", "/run/nri/*",
		"/var/lib/cni", "/var/lib/cni/*", cniCache + "/*", "/var/lib/containerd", "/opt/containerd", "/etc/cni/net.d/*",
		filepath.Join(os.TempDir(), "podsync-*"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, f := range found {
			s.add("file", f)
		}
	}
	return nil
}

// Leaks lists what is still there of a stopped instance, one line each: its processes, mounts, interfaces,
// cgroups and files, and mounts below the further directories.
func (r *Containerd) Leaks(dirs ...string) ([]string, error) {
	now, err := TakeSnapshot()
	if err != nil {
		return nil, err
	}
	var leaks []string
	for _, item := range slices.Sorted(maps.Keys(now.items)) {
		mine := strings.Contains(item, r.inst.Root) || strings.Contains(item, r.inst.Token)
		for _, d := range dirs {
			mine = mine || strings.HasPrefix(item, "mount "+d+"/") || item == "mount "+d
		}
		if mine {
			leaks = append(leaks, item)
		}
	}
	if _, err := os.Lstat(r.inst.Root); !errors.Is(err, fs.ErrNotExist) {
		leaks = append(leaks, "file "+r.inst.Root)
	}
	return slices.Compact(leaks), nil
}
