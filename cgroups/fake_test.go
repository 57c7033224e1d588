package cgroups

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memTree is a kernel's tree in memory: cgroup v2 with its controllers when v2
// is set, else ordinary directories whose files hold what is written.
type memTree struct {
	mu   sync.Mutex
	v2   bool
	dirs map[string]map[string]string
	// procs are the processes per directory; they end dieAfter after a kill.
	procs    map[string][]int
	dieAfter time.Duration
	killed   map[int]time.Time
	// fail is asked first; op is "mkdir", "rmdir", "read", "write".
	fail func(op, dir, file string) error
	// ops counts calls.
	ops map[string]int
}

func newMemTree(v2 bool, controllers string, mounts ...string) *memTree {
	t := &memTree{v2: v2, dirs: map[string]map[string]string{}, procs: map[string][]int{}, killed: map[int]time.Time{}, ops: map[string]int{}}
	for _, m := range mounts {
		t.dirs[m] = map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": ""}
	}
	return t
}

func (t *memTree) begin(op, dir, file string) (func(), error) {
	t.mu.Lock()
	t.ops[op]++
	if t.fail != nil {
		if err := t.fail(op, dir, file); err != nil {
			t.mu.Unlock()
			return nil, &fs.PathError{Op: op, Path: path.Join(dir, file), Err: err}
		}
	}
	if op != "mkdir" && t.dirs[dir] == nil {
		t.mu.Unlock()
		return nil, &fs.PathError{Op: op, Path: dir, Err: fs.ErrNotExist}
	}
	return t.mu.Unlock, nil
}

func (t *memTree) mkdir(dir string) error {
	end, err := t.begin("mkdir", dir, "")
	if err != nil {
		return err
	}
	defer end()
	parent := t.dirs[path.Dir(dir)]
	switch {
	case t.dirs[dir] != nil:
		return fs.ErrExist
	case parent == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	files := map[string]string{}
	if t.v2 {
		files["cgroup.controllers"] = parent["cgroup.subtree_control"]
		files["cgroup.subtree_control"] = ""
		for _, c := range strings.Fields(parent["cgroup.subtree_control"]) {
			switch c {
			case "cpu":
				files["cpu.weight"], files["cpu.max"] = "100", "max 100000"
			case "memory":
				files["memory.max"] = "max"
			case "pids":
				files["pids.max"] = "max"
			case "hugetlb":
				files["hugetlb.2MB.max"] = "max"
			}
		}
	} else {
		files = map[string]string{"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1",
			"memory.limit_in_bytes": "9223372036854771712", "pids.max": "max"}
	}
	t.dirs[dir] = files
	return nil
}

func (t *memTree) rmdir(dir string) error {
	end, err := t.begin("rmdir", dir, "")
	if err != nil {
		return err
	}
	defer end()
	if len(t.alive(dir)) > 0 || len(t.below(dir)) > 0 {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: syscall.EBUSY}
	}
	delete(t.dirs, dir)
	return nil
}

func (t *memTree) below(dir string) (names []string) {
	for d := range t.dirs {
		if path.Dir(d) == dir {
			names = append(names, path.Base(d))
		}
	}
	slices.Sort(names)
	return names
}

func (t *memTree) alive(dir string) []int {
	return slices.DeleteFunc(slices.Clone(t.procs[dir]), func(p int) bool {
		at, ok := t.killed[p]
		return ok && time.Since(at) >= t.dieAfter
	})
}

func (t *memTree) read(dir, file string) (string, error) {
	end, err := t.begin("read", dir, file)
	if err != nil {
		return "", err
	}
	defer end()
	v, ok := t.dirs[dir][file]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: path.Join(dir, file), Err: fs.ErrNotExist}
	}
	return v + "\n", nil
}

func (t *memTree) write(dir, file, value string) error {
	end, err := t.begin("write", dir, file)
	if err != nil {
		return err
	}
	defer end()
	old, ok := t.dirs[dir][file]
	if !ok {
		return &fs.PathError{Op: "open", Path: path.Join(dir, file), Err: fs.ErrNotExist}
	}
	if file == "cgroup.subtree_control" {
		c := strings.TrimPrefix(value, "+")
		if !slices.Contains(strings.Fields(t.dirs[dir]["cgroup.controllers"]), c) {
			return &fs.PathError{Op: "write", Path: path.Join(dir, file), Err: syscall.ENOENT}
		}
		value = strings.TrimSpace(old + " " + c)
	}
	t.dirs[dir][file] = value
	return nil
}

func (t *memTree) subdirs(dir string) ([]string, error) {
	end, err := t.begin("subdirs", dir, "")
	if err != nil {
		return nil, err
	}
	defer end()
	return t.below(dir), nil
}

func (t *memTree) pids(dir string) ([]int, error) {
	end, err := t.begin("pids", dir, "")
	if err != nil {
		return nil, err
	}
	defer end()
	return t.alive(dir), nil
}

func (t *memTree) kill(pid int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ops["kill"]++
	if pid <= 1 {
		return fmt.Errorf("pid %d must never be killed", pid)
	}
	if _, ok := t.killed[pid]; !ok {
		t.killed[pid] = time.Now()
	}
	return nil
}

func (t *memTree) count(op string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ops[op]
}

func (t *memTree) file(dir, file string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirs[dir][file]
}
