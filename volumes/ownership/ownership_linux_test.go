package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/ownership"
)

func TestMode(t *testing.T) {
	for _, test := range []struct {
		mode     fs.FileMode
		readOnly bool
		want     fs.FileMode
	}{
		{0o400, true, 0o440}, {0o444, true, 0o444}, {0o640, true, 0o640}, {0o600, false, 0o660}, {0o755, false, 0o775},
		{0o755 | fs.ModeDir, true, 0o755 | fs.ModeDir | fs.ModeSetgid},
		{0o700 | fs.ModeDir, false, 0o770 | fs.ModeDir | fs.ModeSetgid},
		{0o4711, false, 0o4771},
	} {
		if got := ownership.Mode(test.mode, test.readOnly); got != test.want {
			t.Errorf("VOL-07: Mode(%v, %v) = %v, want %v", test.mode, test.readOnly, got, test.want)
		}
	}
}

func gid(t *testing.T, path string) (uint32, fs.FileMode) {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t).Gid, fi.Mode()
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func makeTree(t *testing.T) (dir, outside string) {
	t.Helper()
	dir, outside = filepath.Join(t.TempDir(), "v"), filepath.Join(t.TempDir(), "host")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "d"), 0o700), os.WriteFile(filepath.Join(dir, "d/f"), nil, 0o600),
		os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir, outside
}

func TestApply(t *testing.T) {
	needsRoot(t)
	dir, outside := makeTree(t)
	if err := ownership.Apply(t.Context(), dir, ownership.Options{Group: 2000}); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{
		"": 0o770 | fs.ModeDir | fs.ModeSetgid, "d": 0o770 | fs.ModeDir | fs.ModeSetgid, "d/f": 0o660,
	} {
		if g, m := gid(t, filepath.Join(dir, p)); g != 2000 || m != want {
			t.Errorf("%q: group %d mode %v, want 2000 %v", p, g, m, want)
		}
	}
	if g, _ := gid(t, filepath.Join(dir, "link")); g != 2000 {
		t.Errorf("the link itself has group %d", g)
	}
	if g, m := gid(t, outside); g != 0 || m != 0o600 {
		t.Errorf("what a link leads to was changed: group %d mode %v", g, m)
	}
}

func TestOnRootMismatch(t *testing.T) {
	needsRoot(t)
	policy := corev1.FSGroupChangeOnRootMismatch
	o := ownership.Options{Group: 2000, Policy: &policy}
	dir, _ := makeTree(t)
	apply := func() {
		t.Helper()
		if err := ownership.Apply(t.Context(), dir, o); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	file := filepath.Join(dir, "d/f")
	if g, _ := gid(t, file); g != 2000 {
		t.Fatalf("the first time everything changes; group %d", g)
	}
	if err := os.Chown(file, 0, 0); err != nil {
		t.Fatal(err)
	}
	apply()
	if g, _ := gid(t, file); g != 0 {
		t.Error("a tree whose root matches was gone through")
	}
	if err := os.Chmod(dir, 0o770); err != nil { // no setgid
		t.Fatal(err)
	}
	apply()
	if g, _ := gid(t, file); g != 2000 {
		t.Error("a tree whose root does not match was left alone")
	}
}

func TestApplyReportsFailures(t *testing.T) {
	if err := ownership.Apply(t.Context(), filepath.Join(t.TempDir(), "no"), ownership.Options{Group: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing tree: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ownership.Apply(ctx, t.TempDir(), ownership.Options{Group: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func ExampleMode() {
	fmt.Println(ownership.Mode(0o400, true), ownership.Mode(0o700|fs.ModeDir, false))
	// Output: -r--r----- dgrwxrwx---
}
