package cgroups_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
)

// realTree makes a function that opens managers over this machine's tree, below a
// cgroup of this test alone, which is gone afterwards.
func realTree(tb testing.TB, o cgroups.Options) (open func() *cgroups.Host, root string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root")
	}
	root = "/podsync-test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	tb.Cleanup(func() { removeTree(tb, root) })
	o.CgroupRoot = root
	open = func() *cgroups.Host {
		tb.Helper()
		h, err := cgroups.New(o)
		if err != nil {
			tb.Skipf("needs cgroups: %v", err)
		}
		return h
	}
	h := open()
	if err := h.RefreshTiers(tb.Context(), nil); errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		tb.Skipf("needs a writable cgroup tree: %v", err)
	}
	return open, root
}

// removeTree removes the cgroup and everything below it in every hierarchy.
func removeTree(tb testing.TB, root string) {
	mounts, _ := filepath.Glob("/sys/fs/cgroup/*")
	for _, m := range append(mounts, "/sys/fs/cgroup") {
		var dirs []string
		_ = filepath.WalkDir(m+root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := syscall.Rmdir(dirs[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				tb.Errorf("leaves %s behind: %v", dirs[i], err)
			}
		}
	}
}

func TestHostConforms(t *testing.T) {
	cgroupstest.Run(t, func(t *testing.T) func() cgroups.Manager {
		open, _ := realTree(t, cgroups.Options{})
		return func() cgroups.Manager { return open() }
	})
}

// unified tells whether this machine has cgroup v2 proper.
func unified() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

func readValue(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestHostWritesValues(t *testing.T) {
	open, root := realTree(t, cgroups.Options{Values: cgroups.Values{PidsLimit: 77}})
	parent, err := open().Ensure(t.Context(), cgroupstest.Pod("a-b", "500m", "500m"))
	if err != nil {
		t.Fatal(err)
	}
	if want := root + "/kubepods/poda-b"; parent != want {
		t.Errorf("parent %q, want %q", parent, want)
	}
	want := map[string]string{"cpu/cpu.shares": "512", "cpu/cpu.cfs_quota_us": "50000", "memory/memory.limit_in_bytes": "67108864", "pids/pids.max": "77"}
	if unified() {
		want = map[string]string{"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": "67108864", "pids.max": "77"}
	}
	for file, v := range want {
		dir, base := filepath.Split(file)
		if got := readValue(t, filepath.Join("/sys/fs/cgroup", dir, parent, base)); got != v {
			t.Errorf("%s holds %s, want %s", file, got, v)
		}
	}
}

func TestCase_CGR_03_KernelTakesSmallLimits(t *testing.T) {
	open, _ := realTree(t, cgroups.Options{})
	h := open()
	for _, cpu := range []string{"1m", "2m", "5m", "9m", "10m", "11m", "51m", "100m"} {
		if _, err := h.Ensure(t.Context(), cgroupstest.Pod("small", cpu, cpu)); err != nil {
			t.Errorf("%s: %v", cpu, err)
		}
	}
}

func TestCase_CGR_12_PeriodAndQuotaOrder(t *testing.T) {
	if unified() {
		t.Skip("needs cgroup v1: v2 writes both at once")
	}
	_, root := realTree(t, cgroups.Options{})
	dir := "/sys/fs/cgroup/cpu" + root + "/kubepods"
	write := func(file, v string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(v), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu.cfs_quota_us", "50000")
	p := cgroupstest.Pod("a", "500m", "500m")
	pod := dir + "/poda"
	period := func(d time.Duration) {
		t.Helper()
		h, err := cgroups.New(cgroups.Options{CgroupRoot: root, Values: cgroups.Values{CPUPeriod: d}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Update(t.Context(), p); err != nil {
			t.Fatalf("period %v: %v", d, err)
		}
		got := readValue(t, pod+"/cpu.cfs_quota_us") + "/" + readValue(t, pod+"/cpu.cfs_period_us")
		if want := fmt.Sprintf("%d/%d", d.Microseconds()/2, d.Microseconds()); got != want {
			t.Errorf("holds %s, want %s", got, want)
		}
	}
	period(100 * time.Millisecond)
	period(10 * time.Millisecond)
	period(100 * time.Millisecond)
	// The same with a container that has as much as the pod.
	period(100 * time.Millisecond)
	if err := os.Mkdir(pod+"/c", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pod+"/c/cpu.cfs_quota_us", []byte("50000"), 0o644); err != nil {
		t.Fatal(err)
	}
	period(10 * time.Millisecond)
	period(100 * time.Millisecond)
}

// sleeper starts a process in a child of the pod's cgroup, in one hierarchy.
func sleeper(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	child := filepath.Join(dir, "container")
	if err := os.Mkdir(child, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() { defer close(waited); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-waited })
	if err := os.WriteFile(filepath.Join(child, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func memoryMount() string {
	if unified() {
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/memory"
}

func TestCase_CGR_10_KillsWhatRuns(t *testing.T) {
	open, _ := realTree(t, cgroups.Options{})
	h := open()
	parent, err := h.Ensure(t.Context(), cgroupstest.Pod("a", "100m", ""))
	if err != nil {
		t.Fatal(err)
	}
	sleeper(t, memoryMount()+parent)
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if uids, err := h.List(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("List: %v, %v", uids, err)
	}
}

func TestCase_CGR_13_ReducesCPU(t *testing.T) {
	open, _ := realTree(t, cgroups.Options{})
	h := open()
	parent, err := h.Ensure(t.Context(), cgroupstest.Pod("a", "500m", "500m"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t, memoryMount()+parent)
	if err := h.ReduceCPU(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	file, want := "/sys/fs/cgroup/cpu"+parent+"/cpu.shares", "2"
	if unified() {
		file, want = "/sys/fs/cgroup"+parent+"/cpu.weight", "1"
	}
	if got := readValue(t, file); got != want {
		t.Errorf("%s holds %s, want %s", file, got, want)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process is gone: %v", err)
	}
	if err := h.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

// hybridHost skips unless cgroup v1 has the controllers and an empty cgroup2 is
// mounted beside them.
func hybridHost(t *testing.T) string {
	t.Helper()
	const at = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(at + "/cgroup.controllers"); err != nil || unified() {
		t.Skip("needs a hybrid host")
	}
	return at
}

func TestCase_CGR_11_RealHybrid(t *testing.T) {
	at := hybridHost(t)
	open, root := realTree(t, cgroups.Options{})
	h := open()
	if !strings.HasPrefix(h.String(), "cgroup v1") {
		t.Errorf("taken for %s", h)
	}
	// What a runtime leaves in the cgroup2 mount is found and removed too.
	left := at + root + "/kubepods/besteffort/podleft/container"
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if uids, err := h.List(t.Context()); err != nil || len(uids) != 1 || uids[0] != "left" {
		t.Errorf("List: %v, %v", uids, err)
	}
	if err := h.Remove(t.Context(), "left"); err != nil {
		t.Fatal(err)
	}
	if uids, err := h.List(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("List after Remove: %v, %v", uids, err)
	}
}

func TestCase_CGR_09_RealTreeWithoutControllers(t *testing.T) {
	at := hybridHost(t)
	_, root := realTree(t, cgroups.Options{})
	h, err := cgroups.New(cgroups.Options{Root: at, CgroupRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Ensure(t.Context(), cgroupstest.Pod("a", "500m", "500m"))
	var missing *cgroups.MissingControllersError
	if !errors.As(err, &missing) || len(missing.Missing) != 3 {
		t.Errorf("Ensure: %v, want cpu, memory and pids to be missing", err)
	}
}

// Pod cgroups must be cheap to make: at most 4 ms.
func BenchmarkCreate(b *testing.B) {
	open, _ := realTree(b, cgroups.Options{})
	h := open()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Ensure(b.Context(), cgroupstest.Pod("bench", "500m", "500m")); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := h.Remove(b.Context(), "bench"); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRemove(b *testing.B) {
	open, _ := realTree(b, cgroups.Options{})
	h := open()
	for b.Loop() {
		b.StopTimer()
		if _, err := h.Ensure(b.Context(), cgroupstest.Pod("bench", "500m", "500m")); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := h.Remove(b.Context(), "bench"); err != nil {
			b.Fatal(err)
		}
	}
}

// What a pod costs whose cgroup is read back and found right.
func BenchmarkUpdateUnchanged(b *testing.B) {
	open, _ := realTree(b, cgroups.Options{})
	h := open()
	p := cgroupstest.Pod("bench", "500m", "500m")
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Update(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	if err := h.Remove(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
}
