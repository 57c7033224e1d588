package volumes_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

// Whatever fails, whenever the agent restarts or the node reboots: a Mount that
// succeeds shows the objects as they are, a Remove that succeeds leaves nothing.
func TestAnyHistoryEndsRight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp("", "agent")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(root)
		n := &node{t: t, root: root, mounter: volumestest.NewMounter(), objects: &volumestest.Objects{}}
		n.options = volumes.Options{Layout: volumes.Layout{Root: root}, Mounter: n.mounter, Objects: n.objects}
		n.restart()
		pod := volumestest.Pod("u-1", emptyDir("disk", ""), emptyDir("mem", "Memory"), configMap("cfg", "app", true), secret("key", "key"), labels("meta"))
		version, fault, objectsFail := 0, 0, false
		var mu sync.Mutex // volumes are set up side by side
		failing := func() error {
			mu.Lock()
			defer mu.Unlock()
			if fault > 0 {
				if fault--; fault == 0 {
					return errors.New("injected")
				}
			}
			return nil
		}
		n.mounter.MountFunc = func(string, string, string, []string) error { return failing() }
		n.mounter.UnmountFunc = func(string) error { return failing() }
		n.mounter.ListFunc = failing
		n.objects.Func = func(string, string) error {
			if objectsFail {
				return errors.New("server is down")
			}
			return failing()
		}
		mount := func(rt *rapid.T) {
			v, err := n.m.Mount(t.Context(), pod)
			if err != nil || objectsFail {
				return
			}
			stale := podsync.KindContinue
			if out := volumes.Mounted(n.m).Run(t.Context(), podsync.NewSync(pod)); out.Kind() != stale {
				return
			} else if _, again := out.RetryAfter(); again {
				return // not up to date, and it says so
			}
			if v, err = n.m.Mount(t.Context(), pod); err != nil {
				rt.Fatalf("Mount after Mounted: %v", err)
			}
			if got, want := n.read(v, "cfg", "a"), fmt.Sprint(version); version > 0 && got != want {
				rt.Fatalf("config map shows %q, want %q", got, want)
			}
			if got, want := n.read(v, "key", "k"), fmt.Sprint(version); version > 0 && got != want {
				rt.Fatalf("secret shows %q, want %q", got, want)
			}
			if got, want := n.read(v, "meta", "labels"), fmt.Sprintf("v=%q", pod.Labels["v"]); len(pod.Labels) > 0 && got != want {
				rt.Fatalf("labels show %q, want %q", got, want)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"mount":   mount,
			"unmount": func(*rapid.T) { _ = n.m.Unmount(t.Context(), "u-1") },
			"remove": func(rt *rapid.T) {
				if n.m.Remove(t.Context(), "u-1") == nil && exists(n.podDir("u-1")) {
					rt.Fatal("Remove succeeded, and the directory is still there")
				}
			},
			"restart": func(*rapid.T) { n.restart() },
			"reboot":  func(*rapid.T) { n.mounter.MountPoints = nil; n.restart() },
			"fault":   func(rt *rapid.T) { fault = rapid.IntRange(1, 6).Draw(rt, "at call") },
			"api":     func(*rapid.T) { objectsFail = !objectsFail },
			"relabel": func(*rapid.T) { pod = relabel(pod) },
			"container": func(*rapid.T) {
				_ = os.WriteFile(n.podDir("u-1")+"/volumes/kubernetes.io~empty-dir/disk/f", nil, 0o600)
			},
			"change": func(*rapid.T) {
				version++
				n.objects.SetConfigMap("app", map[string]string{"a": fmt.Sprint(version)})
				n.objects.SetSecret("key", map[string]string{"k": fmt.Sprint(version)})
			},
		})
		fault, objectsFail = 0, false
		if err := n.m.Remove(t.Context(), "u-1"); err != nil {
			rt.Fatalf("Remove at the end: %v", err)
		}
		if l, _ := n.mounter.List(); len(l) > 0 || exists(n.podDir("u-1")) {
			rt.Fatalf("left at the end: mounts %v, directory %v", l, exists(n.podDir("u-1")))
		}
	})
}

func relabel(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.Labels = map[string]string{"v": p.Labels["v"] + "x"}
	return p
}
