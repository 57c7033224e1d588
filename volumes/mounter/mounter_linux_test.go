package mounter_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podsync/sdk/volumes/mounter"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestMountAndUnmount(t *testing.T) {
	root := volumestest.RealRoot(t, "")
	m := mounter.New()
	dir, bound := filepath.Join(root, "with space"), filepath.Join(root, "bound")
	for _, d := range []string{dir, bound} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Mount("tmpfs", dir, "tmpfs", []string{"size=65536", "nodev"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Mount(dir, bound, "", []string{"bind", "ro"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bound, "f"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to a read-only bind: %v", err)
	}
	l, err := m.List()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, mp := range l {
		if mp.Path == dir || mp.Path == bound {
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("List shows %d of 2 mounts", seen)
	}
	if err := os.Symlink(bound, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(filepath.Join(root, "link")); err != nil {
		t.Errorf("unmounting a link: %v", err)
	}
	if is, err := m.IsMountPoint(bound); err != nil || !is {
		t.Errorf("a link was followed: mounted %v, %v", is, err)
	}
	f, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(bound); err != nil {
		t.Error(err)
	}
	if err := m.Unmount(dir); !errors.Is(err, unix.EBUSY) {
		t.Errorf("unmounting a busy mount: %v", err)
	}
	f.Close()
	for range 2 { // the second time there is nothing
		if err := m.Unmount(dir); err != nil {
			t.Error(err)
		}
	}
	if is, err := m.IsMountPoint(dir); err != nil || is {
		t.Errorf("still mounted: %v, %v", is, err)
	}
}

func TestErrors(t *testing.T) {
	m := mounter.New()
	missing := filepath.Join(t.TempDir(), "no")
	if _, err := m.IsMountPoint(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("IsMountPoint of nothing: %v", err)
	}
	if err := m.Mount("tmpfs", missing, "tmpfs", nil); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Mount: %v", err)
	}
}

func ExampleNew() {
	m := mounter.New()
	is, err := m.IsMountPoint("/proc/self")
	fmt.Println(is, err)
	// Output: false <nil>
}
