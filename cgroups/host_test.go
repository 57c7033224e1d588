package cgroups

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const v2root = "/sys/fs/cgroup"

// newV2 makes a Host over a cgroup v2 in memory.
func newV2(t *testing.T, o Options, controllers string) (*Host, *memTree) {
	t.Helper()
	tree := newMemTree(true, controllers, v2root)
	h, err := newHost(o, layout{v2: true, dirs: []string{v2root}, made: []int{0}}, tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h, tree
}

func burstable(uid types.UID, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func TestCase_CGR_09_MissingController(t *testing.T) {
	h, tree := newV2(t, Options{}, "cpu cpuset io memory pids")
	locked := true
	tree.fail = func(op, dir, file string) error {
		// The parent does not delegate cpuset.
		if locked && op == "write" && dir == v2root+"/kubepods" && file == "cgroup.subtree_control" && !slices.Contains(strings.Fields(tree.dirs[dir][file]), "cpuset") &&
			slices.Contains(strings.Fields(tree.dirs[dir][file]), "cpu") {
			return syscall.EACCES
		}
		return nil
	}
	p := burstable("a", "1")
	_, err := h.Ensure(t.Context(), p)
	var missing *MissingControllersError
	if !errors.As(err, &missing) {
		t.Fatalf("Ensure: %v, want a *MissingControllersError", err)
	}
	if !slices.Contains(missing.Missing, "cpuset") || !strings.Contains(err.Error(), "cpuset") {
		t.Errorf("the error does not name cpuset: %v", err)
	}
	locked = false
	if _, err := h.Ensure(t.Context(), p); err != nil {
		t.Fatalf("Ensure after the controller was delegated: %v", err)
	}
}

func TestCase_CGR_09_KernelWithoutMemory(t *testing.T) {
	h, _ := newV2(t, Options{}, "cpu cpuset io pids")
	_, err := h.Ensure(t.Context(), burstable("a", "1"))
	var missing *MissingControllersError
	if !errors.As(err, &missing) || !slices.Equal(missing.Missing, []string{"memory"}) {
		t.Errorf("Ensure: %v, want memory to be missing", err)
	}
}

func TestFailedWriteIsAnError(t *testing.T) {
	h, tree := newV2(t, Options{}, "cpu memory pids")
	broken := true
	tree.fail = func(op, dir, file string) error {
		if broken && op == "write" && file == "cpu.weight" && strings.HasSuffix(dir, "/poda") {
			return syscall.EINVAL
		}
		return nil
	}
	p := burstable("a", "1")
	for range 2 {
		if _, err := h.Ensure(t.Context(), p); !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("Ensure: %v, want EINVAL each time", err)
		}
	}
	broken = false
	if _, err := h.Ensure(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := tree.file(v2root+"/kubepods/burstable/poda", "cpu.weight"); got != "39" {
		t.Errorf("cpu.weight %q, want 39", got)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h, tree := newV2(t, Options{Recheck: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}, "cpu memory pids")
		p, dir := burstable("a", "1"), v2root+"/kubepods/burstable/poda"
		ensure := func() {
			t.Helper()
			if parent, err := h.Ensure(t.Context(), p); err != nil || parent != "/kubepods/burstable/poda" {
				t.Fatalf("Ensure: %q, %v", parent, err)
			}
		}
		ensure()
		tree.dirs[dir]["cpu.weight"], tree.dirs[dir]["memory.max"] = "7", "4096"
		calls := tree.count("read")
		ensure()
		if got := tree.count("read"); got != calls {
			t.Errorf("an unchanged pod cost %d reads", got-calls)
		}
		p = p.DeepCopy() // another object, the same values
		ensure()
		if got := tree.count("read"); got != calls {
			t.Errorf("a pod of unchanged values cost %d reads", got-calls)
		}
		time.Sleep(time.Minute)
		writes := tree.count("write")
		ensure()
		if d := cmp.Diff([]string{"39", "max"}, []string{tree.file(dir, "cpu.weight"), tree.file(dir, "memory.max")}); d != "" {
			t.Errorf("not repaired (-want +got):\n%s", d)
		}
		if got := tree.count("write") - writes; got != 2 {
			t.Errorf("%d writes, want the two that drifted", got)
		}
		delete(tree.dirs, dir)
		if err := h.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := tree.file(dir, "cpu.weight"); got != "39" {
			t.Errorf("cpu.weight of the pod made again is %q", got)
		}
		if !strings.Contains(log.String(), "made again") {
			t.Errorf("nobody was told: %q", log.String())
		}
	})
}

func TestTiersMadeAgain(t *testing.T) {
	h, tree := newV2(t, Options{}, "cpu memory pids")
	if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
		t.Fatal(err)
	}
	for d := range tree.dirs {
		if d != v2root {
			delete(tree.dirs, d)
		}
	}
	if _, err := h.Ensure(t.Context(), burstable("b", "1")); err != nil {
		t.Fatal(err)
	}
	if got := tree.file(v2root+"/kubepods/burstable", "cpu.weight"); got != "79" {
		t.Errorf("the tier's weight is %q, want 79 for two CPUs", got)
	}
}

func TestTierFollowsItsPods(t *testing.T) {
	h, tree := newV2(t, Options{}, "cpu memory pids")
	tier := func() string { return tree.file(v2root+"/kubepods/burstable", "cpu.weight") }
	step := func(want string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := tier(); got != want {
			t.Errorf("the tier's weight is %s, want %s", got, want)
		}
	}
	step("1", h.RefreshTiers(t.Context(), nil))
	step("39", h.Update(t.Context(), burstable("a", "1")))
	step("79", h.Update(t.Context(), burstable("b", "1")))
	step("157", h.Update(t.Context(), burstable("b", "3")))
	step("118", h.Remove(t.Context(), "a"))
	step("118", h.Remove(t.Context(), "a"))
	step("39", h.RefreshTiers(t.Context(), []*corev1.Pod{burstable("c", "1")}))
	step("1", h.Remove(t.Context(), "c"))
}

// newV1 makes a Host over a hybrid cgroup v1 in memory.
func newV1(t *testing.T, mounts []mount) (*Host, *memTree) {
	t.Helper()
	l, err := detect(v2root, host{kind: other, mounts: func() ([]mount, error) { return mounts, nil }})
	if err != nil {
		t.Fatal(err)
	}
	tree := newMemTree(false, "", l.dirs...)
	h, err := newHost(Options{}, l, tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h, tree
}

func other(string) (fsKind, error) { return fsOther, nil }

func hybrid() []mount {
	return []mount{
		{point: v2root + "/unified", v2: true},
		{point: v2root + "/cpu,cpuacct", options: []string{"rw", "cpu", "cpuacct"}},
		{point: v2root + "/memory", options: []string{"rw", "memory"}},
		{point: v2root + "/pids", options: []string{"rw", "pids"}},
		{point: v2root + "/cpuset", options: []string{"rw", "cpuset"}},
		{point: v2root + "/systemd", options: []string{"rw", "name=systemd"}},
		{point: v2root + "/files", options: []string{"rw", "files"}},
		{point: "/var/lib/ct/sys/fs/cgroup/cpu", options: []string{"rw", "cpu"}},
		{point: v2root + "/memory", options: []string{"rw", "memory"}},
	}
}

func TestCase_CGR_10_OneSetOfHierarchies(t *testing.T) {
	h, tree := newV1(t, hybrid())
	for _, dir := range []string{"/files/kubepods", "/files/kubepods/besteffort", "/files/kubepods/besteffort/podlost"} {
		if err := tree.mkdir(v2root + dir); err != nil {
			t.Fatal(err)
		}
	}
	uids, err := h.List(t.Context())
	if err != nil || !slices.Equal(uids, []types.UID{"lost"}) {
		t.Fatalf("List: %v, %v", uids, err)
	}
	if err := h.Remove(t.Context(), "lost"); err != nil {
		t.Fatal(err)
	}
	if uids, err := h.List(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("List after Remove: %v, %v", uids, err)
	}
}

func TestCase_CGR_11_HybridIsV1(t *testing.T) {
	h, tree := newV1(t, hybrid())
	if h.layout.v2 {
		t.Fatal("a hybrid host was taken for cgroup v2")
	}
	if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
		t.Fatal(err)
	}
	if got := tree.file(v2root+"/cpu,cpuacct/kubepods/burstable/poda", "cpu.shares"); got != "1024" {
		t.Errorf("cpu.shares %q", got)
	}
	for _, m := range []string{"/unified", "/cpuset", "/systemd"} {
		if tree.dirs[v2root+m+"/kubepods"] != nil {
			t.Errorf("a cgroup was made in %s, where nothing is written", m)
		}
	}
	// The file system alone decides, whatever else is mounted.
	l, err := detect(v2root, host{
		kind:   func(string) (fsKind, error) { return fsCgroup2, nil },
		mounts: func() ([]mount, error) { return hybrid(), nil },
	})
	if err != nil || !l.v2 {
		t.Errorf("cgroup2 at the root: %+v, %v", l, err)
	}
	_, err = detect(v2root, host{kind: other, mounts: func() ([]mount, error) { return hybrid()[:2], nil }})
	var missing *MissingControllersError
	if !errors.As(err, &missing) || !slices.Equal(missing.Missing, []string{"memory", "pids"}) {
		t.Errorf("without memory and pids: %v", err)
	}
	if _, err = detect(v2root, host{kind: func(string) (fsKind, error) { return 0, fs.ErrNotExist }}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file system: %v", err)
	}
}

func TestSettingHolds(t *testing.T) {
	for _, tt := range []struct {
		name, want, got string
		unit            int64
		holds           bool
	}{
		{"same", "100", "100\n", 0, true},
		{"other", "100", "101\n", 0, false},
		{"page rounding", "5000", "4096\n", 4096, true},
		{"another page", "9000", "4096\n", 4096, false},
		{"v1 no limit", "-1", "9223372036854771712\n", 4096, true},
		{"v1 limit and none", "-1", "4096\n", 4096, false},
		{"v2 no limit", "max", "max\n", 4096, true},
		{"v2 limit and none", "4096", "max\n", 4096, false},
		{"quota", "max 100000", "max 100000\n", 0, true},
		{"nonsense", "100", "x\n", 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := setting{value: tt.want, unit: tt.unit}
			if got := s.holds(tt.got); got != tt.holds {
				t.Errorf("%q holds %q: %v", tt.got, tt.want, got)
			}
		})
	}
}

func BenchmarkEnsureNoop(b *testing.B) {
	h, err := NewDir(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	p := burstable("a", "1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Ensure(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// The same pod as a new object, as a status that comes back makes it.
func BenchmarkEnsureSameValues(b *testing.B) {
	h, err := NewDir(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	pods := [2]*corev1.Pod{burstable("a", "1"), burstable("a", "1")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := h.Ensure(b.Context(), pods[i%2]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkForPod(b *testing.B) {
	p := burstable("a", "1")
	b.ReportAllocs()
	for b.Loop() {
		_ = Values{}.ForPod(p)
	}
}
