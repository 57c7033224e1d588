package volumes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestDirsStage(t *testing.T) {
	n := newNode(t)
	stage := volumes.Dirs(n.options.Layout)
	if stage.Name() != podsync.StageDirs {
		t.Errorf("name %q", stage.Name())
	}
	s := podsync.NewSync(volumestest.Pod("u-1"))
	for range 2 {
		if out := stage.Run(t.Context(), s); out.Kind() != podsync.KindContinue {
			t.Fatal(out)
		}
	}
	d, _ := podsync.PodDirs.Get(s)
	want := podsync.Dirs{
		Root: n.podDir("u-1"), Volumes: n.podDir("u-1") + "/volumes", Plugins: n.podDir("u-1") + "/plugins",
		Containers: n.podDir("u-1") + "/containers", EtcHosts: n.podDir("u-1") + "/etc-hosts",
	}
	if d != want {
		t.Errorf("PodDirs = %+v, want %+v", d, want)
	}
	for _, p := range []string{d.Volumes, d.Plugins, d.Containers} {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v", p, fi, err)
		}
	}
	// Directories that were lost are made again: for a run after a failed one,
	// and for the pod when it comes back after it was removed.
	for name, again := range map[string]*podsync.Sync{
		"retry": podsync.NewSync(s.Pod(), podsync.WithAttempt(1)),
		"back":  podsync.NewSync(volumestest.Pod("u-1")),
	} {
		n.remove("u-1")
		if out := stage.Run(t.Context(), again); out.Kind() != podsync.KindContinue || !exists(d.Volumes) || !exists(d.Plugins) {
			t.Errorf("%s: after directories were lost: %v", name, out)
		}
	}
}

// A process that sees many pods come and go remembers those that are there.
func TestDirsStageForgets(t *testing.T) {
	n := newNode(t)
	stage := volumes.Dirs(n.options.Layout)
	for i := range 300 {
		uid := types.UID(fmt.Sprint("u-", i))
		s := podsync.NewSync(volumestest.Pod(uid))
		if out := stage.Run(t.Context(), s); out.Kind() != podsync.KindContinue || !exists(n.podDir(uid)) {
			t.Fatal(out)
		}
		n.remove(uid)
		if i%100 == 0 {
			runtime.GC()
		}
	}
}

func TestDirsStageFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, root := range []string{file, "relative"} {
		out := volumes.Dirs(volumes.Layout{Root: root}).Run(t.Context(), podsync.NewSync(volumestest.Pod("u-1")))
		if out.Kind() != podsync.KindRetry {
			t.Errorf("root %s: %v, want Retry", root, out)
		}
	}
}

func TestCase_VOL_04_MissingKeyIsWaitedFor(t *testing.T) {
	n := newNode(t)
	n.objects.SetConfigMap("app", map[string]string{"other": "1"})
	v := configMap("cfg", "app", false)
	v.ConfigMap.Items = []corev1.KeyToPath{{Key: "wanted", Path: "wanted"}}
	pod := volumestest.Pod("u-1", v, secret("key", "nokey"))
	stage := volumes.Mounted(n.m)
	var e events
	s := podsync.NewSync(pod, podsync.WithEvents(&e))
	out := stage.Run(t.Context(), s)
	const want = `volume "cfg": config map "default/app" has no key "wanted"; volume "key": secret "default/nokey" not found`
	if out.Kind() != podsync.KindWait || out.Reason() != "FailedMount" || out.Message() != want {
		t.Errorf("outcome %v, want Wait(FailedMount): %s", out, want)
	}
	if w := out.Wake(); len(w) != 1 || w[0] != podsync.TopicObjectsChanged {
		t.Errorf("wakes on %v", w)
	}
	if e.String() != "Warning FailedMount "+want {
		t.Errorf("event %q", e.String())
	}
	if _, ok := podsync.PodVolumes.Get(s); ok {
		t.Error("PodVolumes is set though volumes are missing")
	}
	n.objects.SetConfigMap("app", map[string]string{"wanted": "1"})
	n.objects.SetSecret("nokey", map[string]string{"k": "1"})
	if out := stage.Run(t.Context(), s); out.Kind() != podsync.KindContinue {
		t.Errorf("after the key appeared: %v", out)
	}
	if pv, ok := podsync.PodVolumes.Get(s); !ok || n.read(pv, "cfg", "wanted") != "1" {
		t.Error("PodVolumes does not have the file")
	}
}

func TestMountedStageRetriesOtherErrors(t *testing.T) {
	n := newNode(t)
	missing := filepath.Join(t.TempDir(), "late")
	v := hostPath("host", missing)
	typ := corev1.HostPathDirectory
	v.HostPath.Type = &typ
	pod := volumestest.Pod("u-1", v, configMap("cfg", "gone", false))
	stage := volumes.Mounted(n.m)
	out := stage.Run(t.Context(), podsync.NewSync(pod))
	if out.Kind() != podsync.KindRetry || out.Reason() != "FailedMount" || !strings.Contains(out.Message(), "hostPath type check failed") {
		t.Errorf("VOL-10: outcome %v, want Retry(FailedMount)", out)
	}
	must(t, os.Mkdir(missing, 0o700))
	n.objects.SetConfigMap("gone", map[string]string{})
	if out := stage.Run(t.Context(), podsync.NewSync(pod)); out.Kind() != podsync.KindContinue {
		t.Errorf("VOL-10: after the path appeared: %v", out)
	}
}

func TestStagesDeclareWhatTheyNeed(t *testing.T) {
	n := newNode(t)
	for _, test := range []struct {
		stage           podsync.Stage
		needs, provides podsync.AnyKey
	}{
		{volumes.Dirs(n.options.Layout), nil, podsync.PodDirs},
		{volumes.Mounted(n.m), podsync.PodDirs, podsync.PodVolumes},
	} {
		d := test.stage.(podsync.Declarer).Declare()
		if len(d.Provides) != 1 || d.Provides[0] != test.provides {
			t.Errorf("%s provides %v", test.stage.Name(), d.Provides)
		}
		if test.needs != nil && (len(d.Needs) != 1 || d.Needs[0] != test.needs) {
			t.Errorf("%s needs %v", test.stage.Name(), d.Needs)
		}
	}
}
