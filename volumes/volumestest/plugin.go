package volumestest

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/plugin"
)

// Case describes a plugin to the conformance suite.
type Case struct {
	// New makes the plugin; called again to stand for a restart of the agent.
	New func() plugin.Plugin
	// Volume is a volume that the plugin supports, named "vol".
	Volume corev1.Volume
	// Objects are those that the volume needs.
	Objects podsync.Objects
	// Missing is an Objects without those; nil when the volume needs none.
	Missing podsync.Objects
	// Host is the node; fields that are not set get defaults, the Mounter a fake.
	Host plugin.Host
	// Outside tells that the volume's path lies outside the pod's directory and
	// stays when the volume is taken down, as a hostPath does.
	Outside bool
}

// Plugin runs the conformance suite: what a Manager relies on in every plugin.
func Plugin(t *testing.T, c Case) {
	if c.Volume.Name != "vol" {
		t.Fatalf("Case.Volume is named %q, want vol", c.Volume.Name)
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"Name", testName},
		{"CanSupport", testCanSupport},
		{"SetUpIsIdempotent", testIdempotent},
		{"SetUpAfterRestartKeepsContent", testRestart},
		{"SetUpStaysInItsDirectories", testStays},
		{"SetUpWithEndedContextRecovers", testEnded},
		{"SetUpReportsMissingObjects", testMissing},
		{"SetUpReportsMountFailures", testMountFails},
		{"TearDownLeavesNothing", testTearDown},
		{"TearDownOfNothing", testTearDownNothing},
		{"TearDownFollowsNoLink", testLink},
		{"TearDownKeepsWhatIsBusy", testBusy},
		{"ManyPodsAtOnce", testMany},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newBench(t, c)) })
	}
}

// bench is a node with one pod on it.
type bench struct {
	Case
	root   string
	fake   *Mounter // nil when the case brings its own
	plugin plugin.Plugin
}

func newBench(t *testing.T, c Case) *bench {
	b := &bench{Case: c, root: t.TempDir(), plugin: c.New()}
	if b.Host.Mounter == nil {
		b.fake = NewMounter()
		b.Host.Mounter = b.fake
	}
	if b.Host.Allocatable == nil {
		b.Host.Allocatable = func() corev1.ResourceList { return nil }
	}
	if b.Host.Clock == nil {
		b.Host.Clock = clock.RealClock{}
	}
	if b.Host.Logger == nil {
		b.Host.Logger = slog.New(slog.DiscardHandler)
	}
	if b.Objects == nil {
		b.Objects = &Objects{}
	}
	return b
}

func (b *bench) dirs(uid types.UID) (dir, meta string) {
	p := filepath.Join(b.root, string(uid))
	n := plugin.EscapeName(b.plugin.Name())
	return filepath.Join(p, "volumes", n, "vol"), filepath.Join(p, "plugins", n, "vol")
}

func (b *bench) request(uid types.UID) *plugin.Request {
	pod := Pod(uid, b.Volume)
	r := &plugin.Request{Pod: pod, Volume: &pod.Spec.Volumes[0], Objects: b.Objects, Host: b.Host}
	r.Dir, r.MetaDir = b.dirs(uid)
	return r
}

func (b *bench) removal(uid types.UID) *plugin.Removal {
	r := &plugin.Removal{UID: uid, Volume: "vol", Host: b.Host}
	r.Dir, r.MetaDir = b.dirs(uid)
	return r
}

func (b *bench) setUp(t *testing.T, uid types.UID) plugin.Mounted {
	t.Helper()
	m, err := b.plugin.SetUp(t.Context(), b.request(uid))
	if err != nil {
		t.Fatalf("SetUp: %v", err)
	}
	if _, err := os.Stat(m.Path); err != nil || !filepath.IsAbs(m.Path) {
		t.Fatalf("SetUp returned path %q: %v", m.Path, err)
	}
	return m
}

func (b *bench) tearDown(t *testing.T, uid types.UID) {
	t.Helper()
	if err := b.plugin.TearDown(t.Context(), b.removal(uid)); err != nil {
		t.Fatalf("TearDown: %v", err)
	}
}

func (b *bench) gone(t *testing.T, uid types.UID) {
	t.Helper()
	dir, meta := b.dirs(uid)
	for _, p := range []string{dir, meta} {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after TearDown %s is still there: %v", p, err)
		}
	}
	if b.fake == nil {
		return
	}
	if l, _ := b.fake.List(); mounts(l, dir) > 0 {
		t.Errorf("after TearDown something is mounted at %s", dir)
	}
}

func mounts(l []mount.MountPoint, dir string) (n int) {
	for _, mp := range l {
		if mp.Path == dir || strings.HasPrefix(mp.Path, dir+"/") {
			n++
		}
	}
	return n
}

func testName(t *testing.T, b *bench) {
	n := b.plugin.Name()
	if n != b.New().Name() {
		t.Error("Name changes from one instance to the next")
	}
	if !strings.Contains(n, "/") || strings.ContainsAny(n, "~ \x00") || strings.Contains(n, "..") {
		t.Errorf("Name %q is not a qualified name such as example.com/kind", n)
	}
}

func testCanSupport(t *testing.T, b *bench) {
	if !b.plugin.CanSupport(&b.Volume) {
		t.Error("CanSupport says no to the case's volume")
	}
	if b.plugin.CanSupport(&corev1.Volume{Name: "vol"}) {
		t.Error("CanSupport says yes to a volume without a source")
	}
}

func testIdempotent(t *testing.T, b *bench) {
	first := b.setUp(t, "pod-1")
	before := tree(t, first.Path)
	second := b.setUp(t, "pod-1")
	if d := cmp.Diff(first, second); d != "" {
		t.Errorf("SetUp again returned something else (-first +second):\n%s", d)
	}
	if d := cmp.Diff(before, tree(t, second.Path)); d != "" {
		t.Errorf("SetUp again changed the volume (-before +after):\n%s", d)
	}
	b.plugin.Attributes(&b.Volume)
}

func testRestart(t *testing.T, b *bench) {
	first := b.setUp(t, "pod-1")
	before := tree(t, first.Path)
	b.plugin = b.New()
	second := b.setUp(t, "pod-1")
	if first.Path != second.Path {
		t.Errorf("path after a restart is %s, was %s", second.Path, first.Path)
	}
	if d := cmp.Diff(before, tree(t, second.Path)); d != "" {
		t.Errorf("a restart changed the volume (-before +after):\n%s", d)
	}
}

func testStays(t *testing.T, b *bench) {
	canary := filepath.Join(b.root, "pod-1", "volumes", plugin.EscapeName(b.plugin.Name()), "other", "file")
	write(t, canary)
	m := b.setUp(t, "pod-1")
	dir, meta := b.dirs("pod-1")
	if !b.Outside && m.Path != dir && !strings.HasPrefix(m.Path, dir+"/") {
		t.Errorf("path %s is not in the volume's directory %s", m.Path, dir)
	}
	b.tearDown(t, "pod-1")
	err := filepath.WalkDir(b.root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && p != canary {
			t.Errorf("TearDown left %s (the volume's are %s and %s)", p, dir, meta)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("another volume lost its file: %v", err)
	}
}

func testEnded(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = b.plugin.SetUp(ctx, b.request("pod-1")) // may succeed or not
	b.setUp(t, "pod-1")
	b.tearDown(t, "pod-1")
	b.gone(t, "pod-1")
}

func testMissing(t *testing.T, b *bench) {
	if b.Missing == nil {
		return
	}
	r := b.request("pod-1")
	r.Objects = b.Missing
	if _, err := b.plugin.SetUp(t.Context(), r); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("SetUp without its object: %v, want an error that matches podsync.ErrNotFound", err)
	}
	b.setUp(t, "pod-1")
}

func testMountFails(t *testing.T, b *bench) {
	if b.fake == nil {
		return
	}
	broken := errors.New("mount is broken")
	asked := false
	b.fake.MountFunc = func(string, string, string, []string) error { asked = true; return broken }
	if _, err := b.plugin.SetUp(t.Context(), b.request("pod-1")); asked && !errors.Is(err, broken) {
		t.Errorf("SetUp while mount fails: %v, want it to wrap the mounter's error", err)
	}
	b.fake.MountFunc = nil
	b.setUp(t, "pod-1")
	b.tearDown(t, "pod-1")
	b.gone(t, "pod-1")
}

func testTearDown(t *testing.T, b *bench) {
	m := b.setUp(t, "pod-1")
	if !b.Outside {
		write(t, filepath.Join(m.Path, "made/by/a/container"))
	}
	b.plugin = b.New()
	b.tearDown(t, "pod-1")
	b.gone(t, "pod-1")
	b.tearDown(t, "pod-1")
	if b.Outside {
		if _, err := os.Stat(m.Path); err != nil {
			t.Errorf("TearDown touched what lies outside: %v", err)
		}
	}
	b.setUp(t, "pod-1")
}

func testTearDownNothing(t *testing.T, b *bench) { b.tearDown(t, "pod-1") }

func testLink(t *testing.T, b *bench) {
	if b.Outside {
		return
	}
	canary := filepath.Join(t.TempDir(), "dir", "file")
	write(t, canary)
	m := b.setUp(t, "pod-1")
	if err := os.Symlink(filepath.Dir(canary), filepath.Join(m.Path, "link")); err != nil {
		t.Fatal(err)
	}
	b.tearDown(t, "pod-1")
	b.gone(t, "pod-1")
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("TearDown deleted through a link: %v", err)
	}
}

func testBusy(t *testing.T, b *bench) {
	if b.fake == nil {
		return
	}
	m := b.setUp(t, "pod-1")
	busy := errors.New("device busy")
	asked := false
	b.fake.UnmountFunc = func(string) error { asked = true; return busy }
	err := b.plugin.TearDown(t.Context(), b.removal("pod-1"))
	if asked && !errors.Is(err, busy) {
		t.Errorf("TearDown of a busy mount: %v, want it to wrap the mounter's error", err)
	}
	if asked {
		if _, err := os.Stat(m.Path); err != nil {
			t.Errorf("TearDown removed what is still mounted: %v", err)
		}
	}
	b.fake.UnmountFunc = nil
	b.tearDown(t, "pod-1")
	b.gone(t, "pod-1")
}

func testMany(t *testing.T, b *bench) {
	var wg sync.WaitGroup
	for _, uid := range []types.UID{"pod-1", "pod-2", "pod-3", "pod-4"} {
		wg.Go(func() {
			for range 3 {
				if _, err := b.plugin.SetUp(t.Context(), b.request(uid)); err != nil {
					t.Errorf("SetUp: %v", err)
				}
				if err := b.plugin.TearDown(t.Context(), b.removal(uid)); err != nil {
					t.Errorf("TearDown: %v", err)
				}
			}
			b.gone(t, uid)
		})
	}
	wg.Wait()
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree describes everything at path: names, modes, contents, links.
func tree(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		v := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			v += " " + string(b)
		case fi.Mode()&fs.ModeSymlink != 0:
			l, err := os.Readlink(p)
			if err != nil {
				return err
			}
			v += " -> " + l
		}
		out[strings.TrimPrefix(p, path)] = v
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
