package realruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// instanceFile is the mark of a root directory of ours, and says what there is to undo.
const instanceFile = "instance.json"

// Sweep removes everything that the private containerd of a root directory left when its process died: shims,
// containers, mounts, network, cgroups, and the directory. A directory that does not exist is fine; one that
// this package did not make is ErrNotOurs; one whose owner still runs is ErrInUse.
func Sweep(ctx context.Context, root string) error {
	i, err := readInstance(root)
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(root); errors.Is(statErr, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("sweep %s: %w", root, ErrNotOurs)
	}
	if err != nil {
		return fmt.Errorf("sweep %s: %w", root, err)
	}
	if i.alive() {
		return fmt.Errorf("sweep %s: process %d: %w", root, i.PID, ErrInUse)
	}
	return sweep(ctx, i)
}

// SweepStale sweeps every instance of this machine whose process is dead, as [Start] does first.
func SweepStale(ctx context.Context) error {
	roots, err := filepath.Glob(filepath.Join(os.TempDir(), rootPrefix+"*"))
	if err != nil {
		return fmt.Errorf("look for what dead processes left: %w", err)
	}
	known, err := hostRoots()
	if err != nil {
		return fmt.Errorf("look for what dead processes left: %w", err)
	}
	var errs []error
	for _, root := range append(roots, known...) {
		i, err := readInstance(root)
		if err != nil || i.alive() {
			continue // being made right now, not ours, or in use
		}
		errs = append(errs, sweep(ctx, i))
	}
	return errors.Join(errs...)
}

// token is what random tokens look like.
var token = regexp.MustCompile(`^[0-9a-f]{8}$`)

// readInstance reads the mark of a root directory. As root acts on what it says, and the directory may be in
// a place where everybody can write, it must belong to this user, and name itself.
func readInstance(root string) (instance, error) {
	var i instance
	info, err := os.Lstat(root)
	if err != nil {
		return i, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return i, ErrNotOurs
	}
	b, err := os.ReadFile(filepath.Join(root, instanceFile))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, fmt.Errorf("read %s: %w", instanceFile, err)
	}
	if i.Root != root || !token.MatchString(i.Token) || i.SocketDir != i.path("s") && i.SocketDir != "/run/"+networkPrefix+i.Token {
		return i, ErrNotOurs
	}
	return i, nil
}

// sweep undoes an instance whose containerd may still run. Each step is tried, whatever became of the others;
// the directory goes last, and only when nothing is mounted below it, so that a failed sweep can be repeated.
func sweep(ctx context.Context, i instance) error {
	ids := i.containerIDs()
	steps := []func() error{
		func() error { return i.killProcesses(ctx, ids) },
		func() error { return i.unmount() },
		func() error { return removeBridge(i.bridge()) },
		func() error { return removeRules(ctx, i.network()) },
		func() error { return i.removeCgroups(ctx, ids) },
		func() error { return removeCNICache(i.network()) },
	}
	var errs []error
	for _, step := range steps {
		errs = append(errs, step())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep %s: %w", i.Root, err)
	}
	if err := i.removeFiles(); err != nil {
		return fmt.Errorf("sweep %s: %w", i.Root, err)
	}
	return unregisterHost(ctx, i.Root)
}

// containerIDs finds the containers that were not removed in order: containerd and runc keep a directory each.
func (i instance) containerIDs() []string {
	var ids []string
	for _, pattern := range []string{i.path("state", "io.containerd.runtime.v2.task", "*", "*"), i.path("runc", "*", "*")} {
		found, _ := filepath.Glob(pattern) // fails only for a bad pattern
		for _, f := range found {
			ids = append(ids, filepath.Base(f))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// killProcesses kills containerd, its shims and all that runs in its containers, until none is left.
func (i instance) killProcesses(ctx context.Context, ids []string) error {
	for {
		all, err := processes()
		if err != nil {
			return err
		}
		victims := i.victims(all, ids, os.Getpid())
		if len(victims) == 0 {
			return nil
		}
		for _, pid := range victims {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails only when it is gone
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill processes %v: %w", victims, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// victims picks the processes of the instance from the table: by command line, by cgroup, and their descendants.
func (i instance) victims(all []procInfo, ids []string, self int) []int {
	doomed := map[int]bool{}
	for _, p := range all {
		if p.pid != self && (i.ownArgs(p.args) || i.ownCgroup(p.cgroups, ids)) {
			doomed[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if p.pid != self && doomed[p.parent] && !doomed[p.pid] {
				doomed[p.pid], grown = true, true
			}
		}
	}
	var pids []int
	for pid := range doomed {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// ownArgs tells containerd (--config), its shims (-address) and their runc (--root) by their arguments.
func (i instance) ownArgs(args []string) bool {
	for n := 1; n < len(args); n++ {
		switch args[n-1] {
		case "--config", "-address", "--address":
			if args[n] == i.configFile() || args[n] == i.socket() {
				return true
			}
		case "--root":
			if strings.HasPrefix(args[n], i.path("runc")) {
				return true
			}
		}
	}
	return false
}

// ownCgroup tells whether a process is in a cgroup of one of the containers, or below the instance's own.
func (i instance) ownCgroup(text string, ids []string) bool {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for n, name := range strings.Split(parts[2], "/") {
			if n == 1 && "/"+name == i.cgroupRoot() {
				return true
			}
			if _, found := slices.BinarySearch(ids, name); found {
				return true
			}
		}
	}
	return false
}

// unmount detaches every mount below the root directory, the newest first.
func (i instance) unmount() error {
	for range 10 { // a mount may cover another
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(i.Root))
		if err != nil {
			return fmt.Errorf("list mounts: %w", err)
		}
		if len(mounts) == 0 {
			return nil
		}
		for _, m := range slices.Backward(mounts) {
			if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
			}
		}
	}
	return errors.New("mounts below the root directory keep coming back")
}

// cgroupMounts lists where the cgroup hierarchies are.
func cgroupMounts() ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	var dirs []string
	for _, m := range mounts {
		dirs = append(dirs, m.Mountpoint)
	}
	return dirs, nil
}

// removeCgroups removes the cgroups of the containers, wherever a pod's parent cgroup was, and the instance's own.
func (i instance) removeCgroups(ctx context.Context, ids []string) error {
	hierarchies, err := cgroupMounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hierarchies {
		errs = append(errs, removeCgroupTree(ctx, filepath.Join(h, i.cgroupRoot())))
		if len(ids) == 0 {
			continue
		}
		err := filepath.WalkDir(h, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil // gone meanwhile
			}
			if _, found := slices.BinarySearch(ids, d.Name()); !found {
				return nil
			}
			errs = append(errs, removeCgroupTree(ctx, path))
			return fs.SkipDir
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeCgroupTree removes a cgroup with all below it. The kernel refuses for a moment after the last process ended.
func removeCgroupTree(ctx context.Context, dir string) error {
	for {
		var dirs []string
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		var last error
		for _, d := range slices.Backward(dirs) {
			if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
				last = fmt.Errorf("remove cgroup %s: %w", d, err)
			}
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cniCache is where libcni keeps results; containerd has no setting for it.
const cniCache = "/var/lib/cni/results"

// removeCNICache removes the cached results of the network.
func removeCNICache(network string) error {
	files, err := filepath.Glob(filepath.Join(cniCache, network+"-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}

// removeFiles removes the directories, the mark last.
func (i instance) removeFiles() error {
	left, err := mountinfo.GetMounts(mountinfo.PrefixFilter(i.Root))
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is still mounted", left[0].Mountpoint)
	}
	if err := os.RemoveAll(i.SocketDir); err != nil {
		return err
	}
	entries, err := os.ReadDir(i.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == instanceFile {
			continue
		}
		if err := os.RemoveAll(i.path(e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(i.Root)
}
