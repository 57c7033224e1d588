package volumestest

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// RealRoot returns a directory for tests with real mounts: a tmpfs of that size
// ("" for no limit) whose mounts nobody else sees. When the test ends,
// everything mounted below is unmounted, however the test ended. It skips the
// test without root.
func RealRoot(t testing.TB, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	data := "mode=0755"
	if size != "" {
		data += ",size=" + size
	}
	if err := unix.Mount("podsync-test", dir, "tmpfs", 0, data); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { unmountAll(t, dir) })
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

func unmountAll(t testing.TB, dir string) {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Error(err)
	}
	slices.SortStableFunc(infos, func(a, b *mountinfo.Info) int {
		return cmp.Compare(strings.Count(b.Mountpoint, "/"), strings.Count(a.Mountpoint, "/"))
	})
	for _, mi := range infos {
		if err := unix.Unmount(mi.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("unmount %s: %v", mi.Mountpoint, err)
		}
	}
}

// MountsBelow lists what is mounted below a directory, itself not included.
func MountsBelow(t testing.TB, dir string) []string {
	t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, mi := range infos {
		if mi.Mountpoint != dir {
			out = append(out, mi.Mountpoint)
		}
	}
	return out
}
