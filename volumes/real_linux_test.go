package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestCase_VOL_08_EmptyDirModeAndRestart(t *testing.T) {
	n := newRealNode(t, "")
	defer syscall.Umask(syscall.Umask(0o077))
	pod := volumestest.Pod("u-1", emptyDir("disk", ""), emptyDir("mem", "Memory"))
	v := n.mount(pod)
	for _, name := range []string{"disk", "mem"} {
		p := n.path(v, name)
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != 0o777 {
			t.Errorf("%s: mode %v, %v, want 0777", name, fi.Mode(), err)
		}
		// A container keeps things there and closes the door.
		must(t, os.WriteFile(filepath.Join(p, "kept"), []byte(name), 0o600))
		must(t, os.Chown(p, 472, 472))
		must(t, os.Chmod(p, 0o700))
	}
	if got := len(volumestest.MountsBelow(t, n.root)); got != 1 {
		t.Errorf("%d mounts, want one tmpfs", got)
	}
	n.restart()
	v = n.mount(pod)
	for _, name := range []string{"disk", "mem"} {
		if got := n.read(v, name, "kept"); got != name {
			t.Errorf("%s: content %q after a restart", name, got)
		}
		fi, err := os.Stat(n.path(v, name))
		if err != nil || fi.Mode().Perm() != 0o700 || fi.Sys().(*syscall.Stat_t).Uid != 472 {
			t.Errorf("%s: a restart changed mode or owner: %v, %v", name, fi.Mode(), err)
		}
	}
	if got := len(volumestest.MountsBelow(t, n.root)); got != 1 {
		t.Errorf("%d mounts after a restart, want one", got)
	}
	n.remove("u-1")
	if m := volumestest.MountsBelow(t, n.root); len(m) > 0 {
		t.Errorf("mounts left: %v", m)
	}
}

func TestMemorySizeIsEnforced(t *testing.T) {
	n := newRealNode(t, "")
	v := emptyDir("mem", "Memory")
	v.EmptyDir.SizeLimit = quantity("1Mi")
	p := n.path(n.mount(volumestest.Pod("u-1", v)), "mem")
	if err := os.WriteFile(filepath.Join(p, "big"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing 2 MiB: %v, want no space left", err)
	}
}

func TestCase_VOL_07_ModesAndGroup(t *testing.T) {
	mode := func(m int32) *int32 { return &m }
	for _, group := range []*int64{nil, new(int64)} {
		t.Run(fmt.Sprintf("fsGroup=%v", group != nil), func(t *testing.T) {
			want := map[string]os.FileMode{"d": 0o400, "x": 0o444, "sub/y": 0o640}
			gid := uint32(0)
			if group != nil {
				*group, gid = 2000, 2000
				want = map[string]os.FileMode{"d": 0o440, "x": 0o444, "sub/y": 0o640}
			}
			n := newRealNode(t, "")
			n.objects.SetConfigMap("app", map[string]string{"d": "1", "x": "2", "y": "3"})
			n.objects.SetSecret("app", map[string]string{"d": "1", "x": "2", "y": "3"})
			items := []corev1.KeyToPath{{Key: "d", Path: "d"}, {Key: "x", Path: "x", Mode: mode(0o444)}, {Key: "y", Path: "sub/y", Mode: mode(0o640)}}
			cm, sec := configMap("cm", "app", false), secret("sec", "app")
			cm.ConfigMap.DefaultMode, cm.ConfigMap.Items = mode(0o400), items
			sec.Secret.DefaultMode, sec.Secret.Items = mode(0o400), items
			pod := volumestest.Pod("u-1", cm, sec, emptyDir("data", ""))
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: group}
			v := n.mount(pod)
			for _, name := range []string{"cm", "sec"} {
				for f, m := range want {
					fi, err := os.Stat(filepath.Join(n.path(v, name), f))
					if err != nil || fi.Mode() != m || fi.Sys().(*syscall.Stat_t).Gid != gid {
						t.Errorf("%s %s: %v, %v, want %v and group %d", name, f, fi.Mode(), err, m, gid)
					}
				}
				before, _ := os.Readlink(filepath.Join(n.path(v, name), "..data"))
				n.restart()
				v = n.mount(pod)
				if after, _ := os.Readlink(filepath.Join(n.path(v, name), "..data")); after != before {
					t.Errorf("%s: a restart wrote the same again", name)
				}
			}
			if group == nil {
				return
			}
			for _, p := range []string{n.path(v, "cm"), filepath.Join(n.path(v, "cm"), "sub"), n.path(v, "sec"), n.path(v, "data")} {
				fi, err := os.Stat(p)
				if err != nil || fi.Mode()&os.ModeSetgid == 0 || fi.Mode()&0o050 != 0o050 || fi.Sys().(*syscall.Stat_t).Gid != 2000 {
					t.Errorf("%s: %v, %v, want setgid, r-x for the group, group 2000", p, fi.Mode(), err)
				}
			}
		})
	}
}

// subPathOf is a pod with one volume and its path on the host.
func subPathOf(t *testing.T, n *node, v corev1.Volume) (podsync.Volumes, string) {
	t.Helper()
	pv := n.mount(volumestest.Pod("u-1", v))
	return pv, n.path(pv, v.Name)
}

func TestCase_VOL_01_LinksOut(t *testing.T) {
	n := newRealNode(t, "")
	v, dir := subPathOf(t, n, emptyDir("v", ""))
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o755))
	for name, target := range map[string]string{"link": "/etc", "a/link": "/etc", "up": "../../..", "a/up": "../../../../../..", "null": "/dev/null"} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for i, sub := range []string{"link", "a/link/b", "up", "a/up/etc", "up/new", "null", "../x", "/etc"} {
		p, err := v.HostPath(t.Context(), "main", i, corev1.VolumeMount{Name: "v"}, sub)
		var se *volumes.SubPathError
		if !errors.As(err, &se) || p != "" {
			t.Errorf("subPath %q: path %q, error %v, want a *SubPathError", sub, p, err)
			continue
		}
		for _, host := range []string{n.root, "/etc/", "/dev", "pods"} {
			if strings.Contains(strings.ReplaceAll(err.Error(), fmt.Sprintf("%q", sub), ""), host) {
				t.Errorf("SEC-05: %q shows a path of the host", err)
			}
		}
	}
	if m := volumestest.MountsBelow(t, n.root); len(m) > 0 {
		t.Errorf("something was mounted: %v", m)
	}
	if exists(filepath.Join(n.root, "new")) || exists(filepath.Join(n.podDir("u-1"), "new")) {
		t.Error("something was made outside the volume")
	}
}

func TestCase_VOL_01_RaceWithRealBinds(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 1000
	}
	n := newRealNode(t, "")
	v, dir := subPathOf(t, n, emptyDir("v", ""))
	outside := filepath.Join(filepath.Dir(n.root), "outside")
	must(t, os.MkdirAll(filepath.Join(dir, "x/y"), 0o755))
	must(t, os.MkdirAll(filepath.Join(outside, "y"), 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "y/secret"), nil, 0o644))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/x", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	bound, refused := 0, 0
	for range rounds {
		p, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "v"}, "x/y")
		if err != nil {
			refused++
			continue
		}
		bound++
		if exists(filepath.Join(p, "secret")) {
			t.Fatal("bound a directory outside the volume")
		}
		must(t, unix.Unmount(p, 0))
	}
	close(stop)
	<-done
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("something was made outside: %v, %v", entries, err)
	}
	t.Logf("%d rounds: %d bound, %d refused, 0 escapes", rounds, bound, refused)
	n.remove("u-1")
}

func TestSubPath(t *testing.T) {
	n := newRealNode(t, "")
	n.objects.SetConfigMap("app", map[string]string{"app.properties": "v1"})
	pod := volumestest.Pod("u-1", emptyDir("v", ""), configMap("cfg", "app", false))
	v := n.mount(pod)
	bind := func(index int, volume, sub string) string {
		t.Helper()
		p, err := v.HostPath(t.Context(), "main", index, corev1.VolumeMount{Name: volume}, sub)
		must(t, err)
		want := filepath.Join(n.podDir("u-1"), "volume-subpaths", volume, "main", fmt.Sprint(index))
		if p != want {
			t.Errorf("path %s, want %s", p, want)
		}
		return p
	}
	p := bind(0, "v", "made/deep")
	must(t, os.WriteFile(filepath.Join(p, "f"), []byte("x"), 0o644))
	if got := n.read(v, "v", "made/deep/f"); got != "x" {
		t.Errorf("the volume has %q", got)
	}
	if fi, _ := os.Stat(filepath.Join(n.path(v, "v"), "made")); fi.Mode().Perm() != 0o777 {
		t.Errorf("missing directories get the volume's mode, not %v", fi.Mode())
	}
	count := func() int { return len(volumestest.MountsBelow(t, n.root)) }
	before := count()
	bind(0, "v", "made/deep") // as when the container is restarted
	n.restart()
	v = n.mount(pod)
	bind(0, "v", "made/deep")
	if count() != before {
		t.Errorf("%d mounts after the same bind again, want %d", count(), before)
	}
	// What the path names now is another directory: bound anew, not upon the old.
	must(t, os.Rename(filepath.Join(n.path(v, "v"), "made"), filepath.Join(n.path(v, "v"), "moved")))
	if p := bind(0, "v", "made/deep"); exists(filepath.Join(p, "f")) || count() != before {
		t.Errorf("the former directory is still bound, or %d mounts instead of %d", count(), before)
	}
	// A file of a config map, through the writer's links, and its new version.
	file := bind(1, "cfg", "app.properties")
	if b, _ := os.ReadFile(file); string(b) != "v1" {
		t.Errorf("file is %q", b)
	}
	n.objects.SetConfigMap("app", map[string]string{"app.properties": "v2"})
	v = n.mount(pod)
	if b, _ := os.ReadFile(file); string(b) != "v1" {
		t.Errorf("a bound file changed to %q by itself", b)
	}
	if b, _ := os.ReadFile(bind(1, "cfg", "app.properties")); string(b) != "v2" {
		t.Errorf("file is %q after the container was restarted", b)
	}
	n.remove("u-1")
	if m := volumestest.MountsBelow(t, n.root); len(m) > 0 {
		t.Errorf("mounts left: %v", m)
	}
}

func TestCase_VOL_05_OptionalMissingThroughSubPath(t *testing.T) {
	n := newRealNode(t, "")
	pod := volumestest.Pod("u-1", configMap("cfg", "gone", true))
	v := n.mount(pod)
	p, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "cfg"}, "app.properties")
	must(t, err)
	if fi, err := os.Stat(p); err != nil || !fi.IsDir() {
		t.Errorf("an empty directory stands in: %v, %v", fi, err)
	}
	if !exists(filepath.Join(n.path(v, "cfg"), "app.properties")) {
		t.Error("the directory is not in the pod's own volume")
	}
	n.objects.SetConfigMap("gone", map[string]string{"app.properties": "x"})
	v = n.mount(pod)
	p, err = v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "cfg"}, "app.properties")
	must(t, err)
	if b, err := os.ReadFile(p); string(b) != "x" {
		t.Errorf("after the config map appeared: %q, %v", b, err)
	}
	n.remove("u-1")
}

func TestCase_VOL_13_OrphanWithBusySubPath(t *testing.T) {
	n := newRealNode(t, "")
	host := filepath.Join(filepath.Dir(n.root), "host")
	must(t, os.MkdirAll(filepath.Join(host, "data"), 0o755))
	canary := filepath.Join(host, "data/canary")
	must(t, os.WriteFile(canary, nil, 0o644))
	v, _ := subPathOf(t, n, hostPath("h", host))
	for i, sub := range []string{"data", "data/canary"} {
		_, err := v.HostPath(t.Context(), "main", i, corev1.VolumeMount{Name: "h"}, sub)
		must(t, err)
	}
	n.restart() // knows nothing of the pod
	c := volumes.Cleaner(n.m)
	uids, err := c.Pods(t.Context())
	if err != nil || len(uids) != 1 {
		t.Fatalf("Pods = %v, %v", uids, err)
	}
	// Somebody is in there: an error, nothing lost, another try.
	f, err := os.Open(filepath.Join(n.podDir("u-1"), "volume-subpaths/h/main/0"))
	must(t, err)
	err = c.Remove(t.Context(), "u-1")
	if !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), `volume "h"`) {
		t.Errorf("while busy: %v, want EBUSY of volume h", err)
	}
	f.Close()
	n.remove("u-1")
	if m := volumestest.MountsBelow(t, n.root); len(m) > 0 {
		t.Errorf("mounts left: %v", m)
	}
	if !exists(canary) {
		t.Error("data of the host is gone")
	}
}

// Mounts that nobody expects, below the pod's directory and inside volumes, are
// unmounted and never deleted through.
func TestRemoveFindsStrangeMounts(t *testing.T) {
	n := newRealNode(t, "")
	host := filepath.Join(filepath.Dir(n.root), "host")
	must(t, os.MkdirAll(host, 0o755))
	canary := filepath.Join(host, "canary")
	must(t, os.WriteFile(canary, nil, 0o644))
	_, dir := subPathOf(t, n, emptyDir("v", ""))
	for _, d := range []string{filepath.Join(dir, "by/container"), filepath.Join(n.podDir("u-1"), "containers/main"), filepath.Join(n.podDir("u-1"), "volumes/kubernetes.io~csi/pvc/mount")} {
		must(t, os.MkdirAll(d, 0o755))
		must(t, unix.Mount(host, d, "", unix.MS_BIND, ""))
	}
	n.restart()
	n.remove("u-1")
	if !exists(canary) {
		t.Error("deleted through a mount")
	}
	if m := volumestest.MountsBelow(t, n.root); len(m) > 0 {
		t.Errorf("mounts left: %v", m)
	}
}

// The disk is full: a clear error for the pod that writes, others go on, and it
// recovers when there is room, with nothing of the failed try left.
func TestDiskFull(t *testing.T) {
	n := newRealNode(t, "256k")
	n.objects.SetConfigMap("small", map[string]string{"a": "1"})
	n.objects.SetConfigMap("large", map[string]string{"a": strings.Repeat("x", 100_000)})
	running := volumestest.Pod("running", configMap("cfg", "small", false))
	n.mount(running)
	ballast := filepath.Join(filepath.Dir(n.root), "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 200_000), 0o600))
	pod := volumestest.Pod("u-1", configMap("cfg", "large", false), emptyDir("mem", "Memory"))
	for range 3 {
		out := volumes.Mounted(n.m).Run(t.Context(), podsync.NewSync(pod))
		if out.Kind() != podsync.KindRetry || !errors.Is(out.Err(), unix.ENOSPC) || !strings.Contains(out.Message(), "no space left on device") {
			t.Fatalf("outcome %v, want Retry that says no space left on device", out)
		}
	}
	n.mount(running)
	n.mount(volumestest.Pod("other", configMap("cfg", "small", false)))
	must(t, os.Remove(ballast))
	v := n.mount(pod)
	if got := n.read(v, "cfg", "a"); len(got) != 100_000 {
		t.Errorf("%d bytes after there was room", len(got))
	}
	for _, uid := range []types.UID{"u-1", "running", "other"} {
		n.remove(uid)
	}
}

// The environment may come from a file that a container wrote.
func TestReadFile(t *testing.T) {
	n := newRealNode(t, "")
	v, dir := subPathOf(t, n, emptyDir("v", ""))
	must(t, os.WriteFile(filepath.Join(dir, "env"), []byte("A=1"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	r := v.(interface {
		ReadFile(ctx context.Context, volume, path string) ([]byte, error)
	})
	if b, err := r.ReadFile(t.Context(), "v", "env"); err != nil || string(b) != "A=1" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	for p, why := range map[string]string{
		"link": "absolute link", "fifo": "regular", "../x": "..", "/env": "relative", "no": "no such file", "big": "1 MiB", ".": "regular",
	} {
		if _, err := r.ReadFile(t.Context(), "v", p); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), n.root) {
			t.Errorf("%s: error %v, want one that says %q", p, err, why)
		}
	}
	n.unmount("u-1")
	if _, err := r.ReadFile(t.Context(), "v", "env"); err == nil {
		t.Error("a file of a volume that is gone was read")
	}
}
