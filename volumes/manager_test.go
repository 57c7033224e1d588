package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMountsWhatContainersUse(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", emptyDir("regular", ""))
	for _, name := range []string{"init", "ephemeral", "envfile", "unused"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, emptyDir(name, ""))
	}
	mount := func(name string) []corev1.VolumeMount { return []corev1.VolumeMount{{Name: name, MountPath: "/m"}} }
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mount("init")}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", VolumeMounts: mount("ephemeral")},
	}}
	// The kubelet forgets a volume that only the environment is read from.
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "E", ValueFrom: &corev1.EnvVarSource{
		FileKeyRef: &corev1.FileKeySelector{VolumeName: "envfile", Path: "env", Key: "E"},
	}}}
	v := n.mount(pod)
	for _, name := range []string{"regular", "init", "ephemeral", "envfile"} {
		if !exists(n.path(v, name)) {
			t.Errorf("volume %s is not there", name)
		}
	}
	if _, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "unused"}, ""); err == nil {
		t.Error("a volume that nobody uses is mounted")
	}
}

func TestModesOfDirectories(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	n := newNode(t)
	n.mount(volumestest.Pod("u-1", emptyDir("v", "")))
	for p, want := range map[string]fs.FileMode{
		"": 0o750, "volumes": 0o750, "volumes/kubernetes.io~empty-dir": 0o750, "volumes/kubernetes.io~empty-dir/v": 0o777,
		"plugins": 0o750, "plugins/kubernetes.io~empty-dir/v": 0o750,
	} {
		if fi, err := os.Stat(filepath.Join(n.podDir("u-1"), p)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%q: mode %v, want %v (%v)", p, fi, want, err)
		}
	}
}

func TestCase_VOL_04_ObjectAppearsAndChanges(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", configMap("cfg", "app", true), secret("key", "key"))
	n.objects.SetSecret("key", map[string]string{"k": "1"})
	v := n.mount(pod)
	if got := n.read(v, "cfg", "a"); got != "<none>" {
		t.Errorf("a = %q before the config map exists", got)
	}
	n.objects.SetConfigMap("app", map[string]string{"a": "1"})
	n.objects.SetSecret("key", map[string]string{"k": "2"})
	v = n.mount(pod)
	if a, k := n.read(v, "cfg", "a"), n.read(v, "key", "k"); a != "1" || k != "2" {
		t.Errorf("a = %q, k = %q after the objects changed", a, k)
	}
	n.objects.SetConfigMap("app", nil)
	v = n.mount(pod)
	if got := n.read(v, "cfg", "a"); got != "<none>" {
		t.Errorf("a = %q after the optional config map is gone", got)
	}
	if !v.ReadOnly("cfg") || !v.ReadOnly("key") || v.ReadOnly("other") {
		t.Error("content volumes are read-only, others are not")
	}
}

func TestOneFailureHoldsNoOtherUp(t *testing.T) {
	n := newNode(t)
	n.objects.SetConfigMap("there", map[string]string{"a": "1"})
	n.objects.Func = func(kind, name string) error {
		if name == "default/broken" {
			return errors.New("server timeout")
		}
		return nil
	}
	pod := volumestest.Pod("u-1", configMap("good", "there", false), configMap("gone", "gone", false), configMap("broken", "broken", true))
	pod.Spec.Volumes[0].ConfigMap.Items = nil
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "typo"})
	_, err := n.m.Mount(t.Context(), pod)
	var pe *volumes.PodError
	if !errors.As(err, &pe) || pe.Missing() || podsync.ReasonOf(err) != "FailedMount" {
		t.Fatalf("error %v: want a *PodError with reason FailedMount, not only of missing objects", err)
	}
	want := `mount volumes of pod default/u-1(u-1): volume "gone": config map "default/gone" not found; ` +
		`volume "broken": read config map "default/broken": server timeout; ` +
		`volume "typo": a container mounts it, but the pod has no volume of that name`
	if d := cmp.Diff(want, err.Error()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !exists(filepath.Join(n.podDir("u-1"), "volumes/kubernetes.io~configmap/good/a")) {
		t.Error("the good volume was not set up")
	}
}

func TestUnsupportedVolume(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}})
	_, err := n.m.Mount(t.Context(), pod)
	var ue *volumes.UnsupportedError
	if !errors.As(err, &ue) || ue.Kind != "nfs" {
		t.Errorf("error %v, want *UnsupportedError of kind nfs", err)
	}
}

func TestLabelsAreRefreshed(t *testing.T) {
	n := newNode(t)
	pod := volumestest.Pod("u-1", labels("meta"), emptyDir("data", ""))
	n.mount(pod)
	changed := pod.DeepCopy()
	changed.Labels = map[string]string{"a": "1"}
	v := n.mount(changed)
	if got := n.read(v, "meta", "labels"); got != `a="1"` {
		t.Errorf("labels = %q", got)
	}
}

// What is up stays usable while the API is away, also over a restart; only the
// refresh fails, and is tried until it succeeds.
func TestRefreshFailureHoldsNothingUp(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			n := newNode(t)
			n.objects.SetConfigMap("app", map[string]string{"a": "1"})
			pod := volumestest.Pod("u-1", configMap("cfg", "app", false))
			n.mount(pod)
			n.objects.Func = func(string, string) error { return errors.New("server is down") }
			if restart {
				n.restart()
			}
			run := func() (podsync.Outcome, string) {
				var e events
				s := podsync.NewSync(pod, podsync.WithEvents(&e))
				return volumes.Mounted(n.m).Run(t.Context(), s), e.String()
			}
			out, event := run()
			if d, again := out.RetryAfter(); out.Kind() != podsync.KindContinue || !again || d <= 0 {
				t.Errorf("outcome %v, again %v in %v: want Continue and another try", out, again, d)
			}
			if !strings.Contains(event, "Warning FailedMount") || !strings.Contains(event, "server is down") {
				t.Errorf("event %q", event)
			}
			v := n.mount(pod)
			if got := n.read(v, "cfg", "a"); got != "1" {
				t.Errorf("a = %q while the server is down", got)
			}
			n.objects.Func = nil
			n.objects.SetConfigMap("app", map[string]string{"a": "2"})
			if out, event := run(); event != "" || out.Kind() != podsync.KindContinue {
				t.Errorf("after the server is back: %v, event %q", out, event)
			}
			if got := n.read(n.mount(pod), "cfg", "a"); got != "2" {
				t.Errorf("a = %q after the server is back", got)
			}
		})
	}
}

type fakeTokens struct {
	clock *clocktesting.FakePassiveClock
	n     int
}

func (f *fakeTokens) Token(context.Context, *corev1.Pod, string, time.Duration) (volumes.Token, error) {
	f.n++
	return volumes.Token{Value: fmt.Sprint("token-", f.n), RefreshAt: f.clock.Now().Add(time.Hour)}, nil
}

func TestTokenIsRenewedWhenItsTimeComes(t *testing.T) {
	n := newNode(t)
	c := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	n.options.Clock, n.options.Tokens = c, &fakeTokens{clock: c}
	n.restart()
	pod := volumestest.Pod("u-1", corev1.Volume{Name: "sa", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}})
	s := podsync.NewSync(pod, podsync.WithClock(c))
	out := volumes.Mounted(n.m).Run(t.Context(), s)
	if d, ok := out.RetryAfter(); !ok || d != time.Hour {
		t.Errorf("outcome %v asks for another run in %v, want 1h", out, d)
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "token-1"}, {59 * time.Minute, "token-1"}, {time.Minute, "token-2"}} {
		c.SetTime(c.Now().Add(step.after))
		if got := n.read(n.mount(s.Pod()), "sa", "token"); got != step.want {
			t.Errorf("after %v more: %q, want %q", step.after, got, step.want)
		}
	}
}

// A mount in use is skipped without asking anybody.
func TestNothingToDoTouchesNothing(t *testing.T) {
	n := newNode(t)
	n.objects.SetSecret("key", map[string]string{"k": "1"})
	pod := volumestest.Pod("u-1", emptyDir("a", ""), emptyDir("b", "Memory"), secret("c", "key"))
	first := n.mount(pod)
	n.mounter.ResetLog()
	n.mounter.MountFunc = func(string, string, string, []string) error { t.Error("mounted again"); return nil }
	if second := n.mount(pod); second != first {
		t.Error("the volumes were made again")
	}
	if again := n.mount(pod.DeepCopy()); again != first {
		t.Error("an equal copy of the pod made the volumes again")
	}
	allocs := testing.AllocsPerRun(100, func() { n.mount(pod) })
	if allocs > 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func TestCanceledMount(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("superseded")
	cancel(cause)
	_, err := n.m.Mount(ctx, volumestest.Pod("u-1", emptyDir("a", "")))
	if !errors.Is(err, cause) || podsync.FromErr(err).Kind() != podsync.KindCanceled {
		t.Errorf("error %v, want a cancellation with its cause", err)
	}
}

// gate is a plugin that blocks, counts and panics.
type gate struct {
	plugin.Plugin
	setUp func(r *plugin.Request) error
}

func (g gate) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	if err := g.setUp(r); err != nil {
		return plugin.Mounted{}, err
	}
	return g.Plugin.SetUp(ctx, r)
}

func TestVolumesSideBySideOnePodAtATime(t *testing.T) {
	n := newNode(t)
	var now, most atomic.Int32
	n.options.Plugins = []volumes.Plugin{gate{volumes.DefaultPlugins()[0], func(*plugin.Request) error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		return nil
	}}}
	n.options.Parallel = 3
	n.restart()
	pod := volumestest.Pod("u-1")
	for i := range 9 {
		v := emptyDir(fmt.Sprint("v", i), "")
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: v.Name})
	}
	var wg sync.WaitGroup
	for range 3 { // three callers for one pod must not come on top of each other
		wg.Go(func() {
			if _, err := n.m.Mount(t.Context(), pod); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := most.Load(); got < 2 || got > 3 {
		t.Errorf("at most %d volumes were set up at a time, want 2 or 3", got)
	}
}

// A pod whose volume hangs holds no other pod up, and gives way to the end of
// its context.
func TestOnePodHangsAloneUntilItsContextEnds(t *testing.T) {
	n := newNode(t)
	release := make(chan struct{})
	entered := make(chan struct{})
	n.options.Plugins = []volumes.Plugin{gate{volumes.DefaultPlugins()[0], func(r *plugin.Request) error {
		if r.Pod.UID == "hangs" {
			close(entered)
			<-release
		}
		return nil
	}}}
	n.restart()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.m.Mount(t.Context(), volumestest.Pod("hangs", emptyDir("v", "")))
	}()
	<-entered
	n.mount(volumestest.Pod("other", emptyDir("v", "")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := n.m.Unmount(ctx, "hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Unmount beside a hanging mount: %v", err)
	}
	close(release)
	<-done
}

func TestPanicOfAPluginIsAnError(t *testing.T) {
	n := newNode(t)
	n.options.Plugins = []volumes.Plugin{gate{volumes.DefaultPlugins()[0], func(*plugin.Request) error { panic("oops") }}}
	n.restart()
	_, err := n.m.Mount(t.Context(), volumestest.Pod("u-1", emptyDir("a", ""), emptyDir("b", "")))
	if err == nil || !strings.Contains(err.Error(), "panicked: oops") {
		t.Errorf("error %v", err)
	}
}

func TestCase_SEC_01_NamesReachNoPath(t *testing.T) {
	n := newNode(t)
	outside := filepath.Dir(n.root)
	before := walk(t, outside)
	for _, uid := range []types.UID{"", "../../../tmp/x", "..", ".", "a/b", "a_b", "a.b", "-a", "a-", "a\x00", types.UID(strings.Repeat("x", 200))} {
		if _, err := n.m.Mount(t.Context(), volumestest.Pod(uid, emptyDir("v", ""))); err == nil {
			t.Errorf("UID %q was mounted", uid)
		}
		if out := volumes.Dirs(n.options.Layout).Run(t.Context(), podsync.NewSync(volumestest.Pod(uid))); out.Kind() != podsync.KindFail {
			t.Errorf("UID %q: directories: %v", uid, out)
		}
		if err := n.m.Unmount(t.Context(), uid); err != nil {
			t.Errorf("UID %q: nothing can be there, but Unmount says %v", uid, err)
		}
		if err := n.m.Remove(t.Context(), uid); err != nil {
			t.Errorf("UID %q: nothing can be there, but Remove says %v", uid, err)
		}
	}
	for _, name := range []string{"../v", "..", "V_1", "", "a/b", strings.Repeat("v", 64)} {
		_, err := n.m.Mount(t.Context(), volumestest.Pod("u-1", emptyDir(name, "")))
		var ne *volumes.NameError
		if !errors.As(err, &ne) {
			t.Errorf("volume name %q: %v, want a *NameError", name, err)
		}
	}
	l := n.options.Layout
	if _, err := l.ContainerDir("u-1", "../c"); err == nil {
		t.Error("container name ../c was accepted")
	}
	v := n.mount(volumestest.Pod("u-2", emptyDir("v", "")))
	for _, c := range []struct{ container, subPath string }{{"../c", "x"}, {"main", "../../etc"}, {"main", "/etc"}, {"main", "a/../../x"}} {
		if _, err := v.HostPath(t.Context(), c.container, 0, corev1.VolumeMount{Name: "v"}, c.subPath); err == nil {
			t.Errorf("container %q, subPath %q was accepted", c.container, c.subPath)
		}
	}
	n.remove("u-2")
	must(t, os.RemoveAll(filepath.Join(n.root, "pods")))
	if d := cmp.Diff(before, walk(t, outside)); d != "" {
		t.Errorf("something was touched outside (-before +after):\n%s", d)
	}
}

func walk(t *testing.T, dir string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		names = append(names, p)
		return err
	}))
	return names
}

func TestNewRefusesNonsense(t *testing.T) {
	p := volumes.DefaultPlugins()[0]
	for name, o := range map[string]volumes.Options{
		"no root":       {},
		"relative root": {Layout: volumes.Layout{Root: "var/lib"}},
		"root is /":     {Layout: volumes.Layout{Root: "/"}},
		"dots in root":  {Layout: volumes.Layout{Root: "/var/../lib"}},
		"two of a name": {Layout: volumes.Layout{Root: "/r"}, Plugins: []volumes.Plugin{p, p}},
		"plugin name":   {Layout: volumes.Layout{Root: "/r"}, Plugins: []volumes.Plugin{named{p, "../x"}}},
	} {
		if _, err := volumes.New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type named struct {
	plugin.Plugin
	name string
}

func (n named) Name() string { return n.name }
