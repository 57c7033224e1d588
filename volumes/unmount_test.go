package volumes_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	mount "k8s.io/mount-utils"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestCase_VOL_11_LeftoversGoInOnePass(t *testing.T) {
	n := newNode(t)
	pod := n.podDir("orphan-1")
	for _, d := range []string{"volumes/kind/v", "volumes/kubernetes.io~csi/pvc/mount", "volume-subpaths/v/c", "containers/main", "plugins/kubernetes.io~empty-dir/wrapped_x"} {
		must(t, os.MkdirAll(filepath.Join(pod, d), 0o750))
	}
	for _, f := range []string{"volume-subpaths/v/c/0", "etc-hosts", "containers/main/1a2b3c4d", "plugins/kubernetes.io~empty-dir/wrapped_x/ready"} {
		must(t, os.WriteFile(filepath.Join(pod, f), nil, 0o644))
	}
	c := volumes.Cleaner(n.m)
	uids, err := c.Pods(t.Context())
	must(t, err)
	if !slices.Equal(uids, []types.UID{"orphan-1"}) {
		t.Errorf("Pods = %v", uids)
	}
	must(t, c.Remove(t.Context(), "orphan-1"))
	if exists(pod) {
		t.Error("the pod's directory is still there")
	}
	must(t, c.Remove(t.Context(), "orphan-1"))
}

func TestDataOfAnUnknownPluginStays(t *testing.T) {
	n := newNode(t)
	data := filepath.Join(n.podDir("u-1"), "volumes/example.com~disk/v/data")
	must(t, os.MkdirAll(filepath.Dir(data), 0o750))
	must(t, os.WriteFile(data, nil, 0o644))
	err := n.m.Remove(t.Context(), "u-1")
	if err == nil || !strings.Contains(err.Error(), "example.com~disk") || podsync.ReasonOf(err) != "FailedUnmount" {
		t.Errorf("error %v does not name the plugin", err)
	}
	if !exists(data) {
		t.Error("its data was deleted")
	}
}

func TestPodsLeavesStrangersAlone(t *testing.T) {
	n := newNode(t)
	if uids, err := n.m.Pods(t.Context()); err != nil || len(uids) > 0 {
		t.Errorf("without a directory: %v, %v", uids, err)
	}
	must(t, os.MkdirAll(filepath.Join(n.root, "pods/lost+found"), 0o750))
	must(t, os.MkdirAll(filepath.Join(n.root, "pods/u-1"), 0o750))
	must(t, os.WriteFile(filepath.Join(n.root, "pods/file"), nil, 0o644))
	must(t, os.Symlink("/", filepath.Join(n.root, "pods/link")))
	uids, err := n.m.Pods(t.Context())
	if err != nil || !slices.Equal(uids, []types.UID{"u-1"}) {
		t.Errorf("Pods = %v, %v", uids, err)
	}
}

func TestCase_VOL_16_BusyUnmountIsTriedUntilItWorks(t *testing.T) {
	n := newNode(t)
	n.objects.SetSecret("key", map[string]string{"k": "1"})
	pod := volumestest.Pod("u-1", emptyDir("mem", "Memory"), secret("key", "key"))
	v := n.mount(pod)
	kept := filepath.Join(n.path(v, "mem"), "kept")
	must(t, os.WriteFile(kept, nil, 0o644))
	busy := 4
	n.mounter.UnmountFunc = func(target string) error {
		if strings.Contains(target, "empty-dir") && busy > 0 {
			busy--
			return syscall.EBUSY
		}
		return nil
	}
	stage := volumes.Unmounted(n.m)
	for i := range 4 {
		out := stage.Run(t.Context(), podsync.NewSync(pod))
		if out.Kind() != podsync.KindRetry || out.Reason() != "FailedUnmount" || !strings.Contains(out.Message(), `volume "mem"`) {
			t.Errorf("try %d: %v, want Retry(FailedUnmount) that names the volume", i, out)
		}
		if !exists(kept) {
			t.Fatalf("try %d: content of a busy volume was deleted", i)
		}
		if exists(filepath.Join(n.podDir("u-1"), "volumes/kubernetes.io~secret")) {
			t.Errorf("try %d: the other volume is still there", i)
		}
		// Other pods proceed.
		n.mount(volumestest.Pod("u-2", emptyDir("v", "Memory")))
	}
	if out := stage.Run(t.Context(), podsync.NewSync(pod)); out.Kind() != podsync.KindContinue {
		t.Errorf("when it is not busy any more: %v", out)
	}
	if l, _ := n.mounter.List(); len(l) != 1 {
		t.Errorf("mounts left: %v", l)
	}
	n.remove("u-1")
}

// Binds of subPaths go before what they are of, what is mounted inside a volume
// before the volume; all of it without having mounted it oneself.
func TestUnmountOrder(t *testing.T) {
	n := newNode(t)
	real, err := filepath.EvalSymlinks(n.root)
	must(t, err)
	pod := filepath.Join(real, "pods/u-1")
	var points []mount.MountPoint
	for _, p := range []string{
		"volumes/kubernetes.io~empty-dir/v", "volumes/kubernetes.io~empty-dir/v/made/by/container",
		"volumes/kubernetes.io~empty-dir/v/made", "volume-subpaths/v/main/0", "volume-subpaths/v/main/1", "volume-subpaths/v/main/1",
	} {
		must(t, os.MkdirAll(filepath.Join(pod, p), 0o750))
		points = append(points, mount.MountPoint{Device: "tmpfs", Path: filepath.Join(pod, p)})
	}
	other := filepath.Join(real, "pods/u-10/volumes/kubernetes.io~empty-dir/v")
	points = append(points, mount.MountPoint{Device: "tmpfs", Path: other})
	n.mounter.MountPoints = points
	n.unmount("u-1")
	var order []string
	for _, a := range n.mounter.GetLog() {
		order = append(order, strings.TrimPrefix(a.Target, pod+"/"))
	}
	place := func(s string) int { return slices.Index(order, s) }
	for _, pair := range [][2]string{
		{"volume-subpaths/v/main/0", "volumes/kubernetes.io~empty-dir/v"},
		{"volumes/kubernetes.io~empty-dir/v/made/by/container", "volumes/kubernetes.io~empty-dir/v/made"},
		{"volumes/kubernetes.io~empty-dir/v/made", "volumes/kubernetes.io~empty-dir/v"},
	} {
		if a, b := place(pair[0]), place(pair[1]); a < 0 || a > b {
			t.Errorf("%s must be unmounted before %s; order: %v", pair[0], pair[1], order)
		}
	}
	if l, _ := n.mounter.List(); len(l) != 1 || l[0].Path != other {
		t.Errorf("mounts left: %v, want only another pod's", l)
	}
}

func TestMountTableUnreadable(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", emptyDir("v", "Memory"))
	n.mount(pod)
	n.mounter.ListFunc = func() error { return errors.New("no /proc") }
	if err := n.m.Unmount(t.Context(), "u-1"); err == nil || !strings.Contains(err.Error(), "no /proc") {
		t.Errorf("error %v", err)
	}
	n.mounter.ListFunc = nil
	n.remove("u-1")
}

func TestVolumesCannotBeUsedWhileTheyGo(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", emptyDir("v", ""))
	v := n.mount(pod)
	n.unmount("u-1")
	for _, sub := range []string{"", "x"} {
		if p, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "v"}, sub); err == nil {
			t.Errorf("subPath %q: path %s of a volume that is gone", sub, p)
		}
	}
	if exists(filepath.Join(n.podDir("u-1"), "volume-subpaths")) {
		t.Error("a subPath was made after the unmount")
	}
	n.path(n.mount(pod), "v") // the same pod again
}

func TestPodDirectoryIsALink(t *testing.T) {
	n := newNode(t)
	outside := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(outside, "volumes/kubernetes.io~empty-dir/v"), 0o750))
	must(t, os.MkdirAll(filepath.Join(n.root, "pods"), 0o750))
	must(t, os.Symlink(outside, filepath.Join(n.root, "pods/u-1")))
	n.remove("u-1")
	if !exists(filepath.Join(outside, "volumes/kubernetes.io~empty-dir/v")) {
		t.Error("deleted through a link")
	}
}
