package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The kernel's cgroup.kill ends a tree of cgroups at once, on any cgroup2 mount.
func TestCase_CGR_10_KillsByCgroupKill(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	at := "/sys/fs/cgroup/unified"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		at = "/sys/fs/cgroup"
	}
	root := "/podsync-test-kill-" + strconv.Itoa(os.Getpid())
	dir := at + root + "/kubepods/podx/a/b"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("needs a writable cgroup2 mount: %v", err)
	}
	h, err := newHost(Options{CgroupRoot: root}, layout{v2: true, dirs: []string{at}, made: []int{0}}, kernelTree{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{"/kubepods", ""} {
			if err := os.Remove(at + root + d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill() //nolint:errcheck // gone already when the test passes
	if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(t.Context(), types.UID("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the process lives on")
	}
	if uids, err := h.List(t.Context()); err != nil || len(uids) != 0 {
		t.Errorf("List: %v, %v", uids, err)
	}
}
