package safefs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/volumes/internal/safefs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRemoveAllFollowsNoLink(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(outside, nil, 0o600))
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "a/link")))
	must(t, os.Symlink(outside, filepath.Join(dir, "file")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, safefs.RemoveAll(t.Context(), dir))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	must(t, safefs.RemoveAll(t.Context(), dir))
	must(t, safefs.RemoveAll(t.Context(), filepath.Join(dir, "never/was")))

	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Dir(outside), link))
	must(t, safefs.RemoveAll(t.Context(), link))
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("removing a link reached what it leads to: %v", err)
	}
}

// A container may nest directories deeper than any number of open files, and
// put more entries into one than are read at a time.
func TestRemoveAllDeepAndWide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.Mkdir(dir, 0o700))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	const depth = 1500
	for range depth {
		must(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	for i := range 1500 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600))
	}
	// A name that the removal would like to use.
	must(t, os.Mkdir(filepath.Join(dir, ".podsync-removing-1"), 0o700))
	must(t, safefs.RemoveAll(t.Context(), dir))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestRemoveAllEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("superseded")
	cancel(cause)
	if err := safefs.RemoveAll(ctx, dir); !errors.Is(err, cause) {
		t.Errorf("error %v, want the context's cause", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
}

func TestRemoveEmptyDirs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	must(t, safefs.RemoveEmptyDirs(t.Context(), dir))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty directories are still there: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a/file"), nil, 0o600))
	if err := safefs.RemoveEmptyDirs(t.Context(), dir); err == nil {
		t.Error("a directory with a file was removed without an error")
	}
	if _, err := os.Stat(filepath.Join(dir, "a/file")); err != nil {
		t.Error(err)
	}
}

func TestMakeDirsIgnoresTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o711))
	must(t, safefs.MakeDirs(filepath.Join(dir, "a/b"), 0o755))
	for p, want := range map[string]fs.FileMode{"": 0o711, "a": 0o755, "a/b": 0o755} {
		if fi, err := os.Stat(filepath.Join(dir, p)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%q: mode %v, want %v (%v)", p, fi.Mode(), want, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	if err := safefs.MakeDirs(filepath.Join(dir, "f/x"), 0o755); err == nil {
		t.Error("a directory was made below a file")
	}
}

func TestOpenBeneath(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.MkdirAll(filepath.Join(root, "dir/sub"), 0o755))
	must(t, os.Chmod(root, 0o775))
	must(t, os.WriteFile(filepath.Join(root, "dir/file"), nil, 0o600))
	for name, target := range map[string]string{
		"in": "dir/sub", "dir/up": "../dir/file", "out": "../..", "abs": outside, "absin": filepath.Join(root, "dir"),
		"dangling": "nothing/here", "loop": "loop", "dir/far": "../../../../../../etc",
	} {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	for _, test := range []struct {
		name, sub string
		create    bool
		want      string // relative to root
		err       error  // or any *EscapeError
		escape    bool
	}{
		{name: "directory", sub: "dir/sub", want: "dir/sub"},
		{name: "file", sub: "dir/file", want: "dir/file"},
		{name: "itself", sub: ".", want: "."},
		{name: "odd slashes", sub: "dir//./sub/", want: "dir/sub"},
		{name: "link that stays", sub: "in", want: "dir/sub"},
		{name: "link in the middle", sub: "in/new", create: true, want: "dir/sub/new"},
		{name: "link up and down", sub: "dir/up", want: "dir/file"},
		{name: "VOL-01 link out", sub: "out", create: true, escape: true},
		{name: "VOL-01 absolute link", sub: "abs", create: true, escape: true},
		{name: "VOL-01 absolute link in the middle", sub: "abs/b", create: true, escape: true},
		{name: "absolute link to inside", sub: "absin", escape: true},
		{name: "VOL-01 link far up", sub: "dir/far", create: true, escape: true},
		{name: "dots", sub: "dir/../../x", create: true, escape: true},
		{name: "missing", sub: "no/such", err: unix.ENOENT},
		{name: "made", sub: "new/deep", create: true, want: "new/deep"},
		{name: "dangling link makes nothing", sub: "dangling", create: true, err: unix.ENOENT},
		{name: "loop", sub: "loop", err: unix.ELOOP},
		{name: "below a file", sub: "dir/file/x", create: true, err: unix.ENOTDIR},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, err := safefs.OpenBeneath(root, test.sub, test.create)
			var escape *safefs.EscapeError
			switch {
			case test.escape != errors.As(err, &escape):
				t.Fatalf("error %v, want escape = %v", err, test.escape)
			case test.escape:
				if strings.Contains(err.Error(), outside) || strings.Contains(err.Error(), root) {
					t.Errorf("SEC-05: %q shows a path of the host", err)
				}
				return
			case !errors.Is(err, test.err):
				t.Fatalf("error %v, want %v", err, test.err)
			case err != nil:
				return
			}
			defer h.Close()
			got, _ := h.Stat()
			want, err := os.Stat(filepath.Join(root, test.want))
			must(t, err)
			if !os.SameFile(got, want) {
				t.Errorf("found something else than %s", test.want)
			}
		})
	}
	for _, p := range []string{"new", "new/deep", "dir/sub/new"} {
		if fi, err := os.Stat(filepath.Join(root, p)); err != nil || fi.Mode().Perm() != 0o775 {
			t.Errorf("%s: mode %v, want the root's 0775 (%v)", p, fi.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("something was made outside: %v", entries)
	}
}

// The kernel knows the same rule: what RESOLVE_BENEATH finds, we find, and what
// it refuses, we refuse.
func TestOpenBeneathAgreesWithTheKernel(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "c", "..", "."})
	path := rapid.Map(rapid.SliceOfN(part, 1, 5), func(p []string) string { return strings.Join(p, "/") })
	entry := rapid.Custom(func(t *rapid.T) [2]string {
		target := rapid.OneOf(rapid.Just("DIR"), rapid.Just("FILE"), path, rapid.Map(path, func(p string) string { return "/" + p })).Draw(t, "target")
		return [2]string{rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a", "b/c", "c/a", "a/b/c"}).Draw(t, "name"), target}
	})
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp("", "beneath")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		for _, e := range rapid.SliceOfN(entry, 0, 8).Draw(rt, "tree") {
			p := filepath.Join(root, e[0])
			switch e[1] {
			case "DIR":
				_ = os.Mkdir(p, 0o755)
			case "FILE":
				_ = os.WriteFile(p, nil, 0o600)
			default:
				if fi, err := os.Lstat(filepath.Dir(p)); err == nil && fi.IsDir() {
					_ = os.Symlink(e[1], p)
				}
			}
		}
		sub := path.Draw(rt, "path")
		dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			rt.Fatal(err)
		}
		defer unix.Close(dir)
		fd, kernel := unix.Openat2(dir, sub, &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		if errors.Is(kernel, unix.ENOSYS) {
			t.Skip("needs openat2")
		}
		h, ours := safefs.OpenBeneath(root, sub, false)
		if (kernel == nil) != (ours == nil) {
			rt.Fatalf("%q: the kernel says %v, we say %v", sub, kernel, ours)
		}
		if kernel != nil {
			return
		}
		k := os.NewFile(uintptr(fd), sub)
		defer k.Close()
		defer h.Close()
		a, _ := k.Stat()
		b, _ := h.Stat()
		if !os.SameFile(a, b) {
			rt.Fatalf("%q: the kernel found something else", sub)
		}
	})
}

// Somebody swaps a directory with a link out as fast as possible: what is
// opened lies inside, always.
func TestCase_VOL_01_OpenRace(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 1000
	}
	base := t.TempDir()
	root, secret := filepath.Join(base, "vol"), filepath.Join(base, "secret")
	must(t, os.MkdirAll(filepath.Join(root, "x/y"), 0o755))
	must(t, os.MkdirAll(filepath.Join(secret, "y"), 0o755))
	must(t, os.Symlink(secret, filepath.Join(root, "link")))
	var inside, outside unix.Stat_t
	must(t, unix.Stat(filepath.Join(root, "x/y"), &inside))
	must(t, unix.Stat(filepath.Join(secret, "y"), &outside))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, root+"/x", unix.AT_FDCWD, root+"/link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	found, refused := 0, 0
	for range rounds {
		h, err := safefs.OpenBeneath(root, "x/y", true)
		if err != nil {
			refused++
			continue
		}
		var st unix.Stat_t
		must(t, unix.Fstat(int(h.Fd()), &st))
		h.Close()
		if st.Ino == outside.Ino && st.Dev == outside.Dev {
			t.Fatal("VOL-01: opened a directory outside")
		}
		found++
	}
	close(stop)
	<-done
	if entries, _ := os.ReadDir(secret); len(entries) != 1 {
		t.Errorf("VOL-01: something was made outside: %v", entries)
	}
	t.Logf("%d rounds: %d found, %d refused", rounds, found, refused)
}

func TestReopenOnlyRegularFiles(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "f"), []byte("x"), 0o600))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	for name, ok := range map[string]bool{"f": true, "fifo": false, ".": false} {
		h, err := safefs.OpenBeneath(root, name, false)
		must(t, err)
		f, err := safefs.Reopen(h)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		h.Close()
	}
}

func TestRemoveAllStopsAtMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	tree, host := filepath.Join(dir, "tree"), filepath.Join(dir, "host")
	must(t, os.MkdirAll(filepath.Join(tree, "a/mnt"), 0o755))
	must(t, os.MkdirAll(host, 0o755))
	canary := filepath.Join(host, "canary")
	must(t, os.WriteFile(canary, nil, 0o600))
	must(t, os.WriteFile(filepath.Join(tree, "file"), nil, 0o600))
	// A bind mount of the same file system: the device number is no different.
	if err := unix.Mount(host, filepath.Join(tree, "a/mnt"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	defer func() { _ = unix.Unmount(filepath.Join(tree, "a/mnt"), unix.MNT_DETACH) }()
	must(t, unix.Mount(canary, filepath.Join(tree, "file"), "", unix.MS_BIND, ""))
	defer func() { _ = unix.Unmount(filepath.Join(tree, "file"), unix.MNT_DETACH) }()
	for _, p := range []string{tree, filepath.Join(tree, "a/mnt")} {
		var mounted *safefs.MountedError
		if err := safefs.RemoveAll(t.Context(), p); !errors.As(err, &mounted) {
			t.Errorf("removing %s: %v, want a *MountedError", p, err)
		}
	}
	if _, err := os.Stat(canary); err != nil {
		t.Fatalf("deleted through a mount: %v", err)
	}
	// Kernels without openat2 tell by the mount's id.
	fd, err := unix.Open(filepath.Join(tree, "a"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	if _, err := safefs.OpenDirOld(fd, "mnt"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("the old way: %v, want EXDEV", err)
	}
	must(t, os.Mkdir(filepath.Join(tree, "a/plain"), 0o755))
	plain, err := safefs.OpenDirOld(fd, "plain")
	must(t, err)
	unix.Close(plain)
	must(t, os.Symlink(host, filepath.Join(tree, "a/link")))
	if _, err := safefs.OpenDirOld(fd, "link"); err == nil {
		t.Error("the old way followed a link")
	}
	must(t, unix.Unmount(filepath.Join(tree, "a/mnt"), 0))
	must(t, unix.Unmount(filepath.Join(tree, "file"), 0))
	must(t, safefs.RemoveAll(t.Context(), tree))
	if _, err := os.Stat(canary); err != nil {
		t.Fatal(err)
	}
}
