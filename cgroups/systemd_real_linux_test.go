package cgroups_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
)

// realSlices makes a function that opens managers with the systemd driver below
// a slice of this test alone.
func realSlices(t *testing.T, o cgroups.Options) (open func() *cgroups.Host, root cgroups.Name) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("needs systemd")
	}
	root = name(t, "podsync-test-"+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	t.Cleanup(func() {
		if out, err := exec.Command("systemctl", "stop", root.Slice()).CombinedOutput(); err != nil {
			t.Errorf("stop %s: %v: %s", root.Slice(), err, out)
		}
	})
	o.CgroupRoot, o.Driver = root.Cgroupfs(), cgroups.Systemd
	return func() *cgroups.Host {
		t.Helper()
		h, err := cgroups.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}, root
}

func TestSystemdHostConforms(t *testing.T) {
	cgroupstest.Run(t, func(t *testing.T) func() cgroups.Manager {
		open, _ := realSlices(t, cgroups.Options{})
		return func() cgroups.Manager { return open() }
	})
}

func TestCase_CGR_05_RealSystemd(t *testing.T) {
	open, root := realSlices(t, cgroups.Options{Values: cgroups.Values{PidsLimit: 77}})
	if !unified() {
		t.Skip("needs cgroup v2")
	}
	h := open()
	for _, tt := range []struct{ limit, max string }{{"", "max 100000"}, {"500m", "50000 100000"}, {"11m", "2000 100000"}, {"", "max 100000"}} {
		parent, err := h.Ensure(t.Context(), cgroupstest.Pod("a-b", "10m", tt.limit))
		if err != nil {
			t.Fatal(err)
		}
		pod, err := root.Child("kubepods", "burstable", "poda-b")
		if err != nil {
			t.Fatal(err)
		}
		if parent != pod.Systemd() {
			t.Errorf("parent %q, want %q", parent, pod.Systemd())
		}
		for file, want := range map[string]string{"cpu.max": tt.max, "pids.max": "77", "memory.max": "max"} {
			if got := readValue(t, filepath.Join("/sys/fs/cgroup", parent, file)); got != want {
				t.Errorf("limit %q: %s holds %q, want %q", tt.limit, file, got, want)
			}
		}
	}
	if err := h.Remove(t.Context(), "a-b"); err != nil {
		t.Fatal(err)
	}
}
