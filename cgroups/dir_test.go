package cgroups_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
)

func TestDirConforms(t *testing.T) {
	cgroupstest.Run(t, func(t *testing.T) func() cgroups.Manager {
		root := t.TempDir()
		return func() cgroups.Manager {
			m, err := cgroups.NewDir(root, cgroups.Options{CgroupRoot: "/edge"})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	})
}

func TestDirWritesValues(t *testing.T) {
	root := t.TempDir()
	m, err := cgroups.NewDir(root, cgroups.Options{Values: cgroups.Values{PidsLimit: 50}})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := m.Ensure(t.Context(), pod("u", ctr("c", list("250m", "64Mi"), list("500m", "64Mi"))))
	if err != nil {
		t.Fatal(err)
	}
	if want := "/kubepods/burstable/podu"; parent != want {
		t.Errorf("parent %q, want %q", parent, want)
	}
	for file, want := range map[string]string{
		parent + "/cpu.weight":            "10",
		parent + "/cpu.max":               "50000 100000",
		parent + "/memory.max":            "67108864",
		parent + "/pids.max":              "50",
		"/kubepods/burstable/cpu.weight":  "10",
		"/kubepods/besteffort/cpu.weight": "1",
	} {
		got, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s holds %q, %v; want %q", file, got, err, want)
		}
	}
}

// A link in the tree is never followed out of it.
func TestDirFollowsNoLink(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	keep := filepath.Join(outside, "keep")
	if err := os.WriteFile(keep, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "kubepods"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "kubepods", "podevil")); err != nil {
		t.Fatal(err)
	}
	m, err := cgroups.NewDir(root, cgroups.Options{RemoveTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ensure(t.Context(), cgroupstest.Pod("evil", "100m", "100m")); err == nil {
		t.Error("a cgroup behind a link was taken")
	}
	_ = m.Remove(t.Context(), "evil")
	if got, err := os.ReadDir(outside); err != nil || len(got) != 1 {
		t.Errorf("outside holds %v, %v", got, err)
	}
}

func TestNewDirNeedsTheDirectory(t *testing.T) {
	if _, err := cgroups.NewDir(filepath.Join(t.TempDir(), "none"), cgroups.Options{}); err == nil {
		t.Error("a missing directory was taken")
	}
	for _, o := range []cgroups.Options{{Driver: "upstart"}, {CgroupRoot: "relative"}, {CgroupRoot: "/a_b"}, {CgroupRoot: "/../x"}} {
		if _, err := cgroups.NewDir(t.TempDir(), o); err == nil {
			t.Errorf("options %+v were taken", o)
		}
	}
}
