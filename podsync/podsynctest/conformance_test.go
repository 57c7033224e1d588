package podsynctest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/objects"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place renames a file into place.
func place(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	tmp := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	must(t, os.WriteFile(tmp, data, 0o600))
	must(t, os.Rename(tmp, path))
}

// until waits for cond.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestObjects_memory(t *testing.T) {
	podsynctest.Objects(t, func(t *testing.T, bus *podsync.Bus) podsynctest.ObjectsBackend {
		m := &objects.Memory{Bus: bus}
		put := func(t *testing.T, o runtime.Object) { t.Helper(); must(t, m.Put(o)) }
		return podsynctest.ObjectsBackend{
			Objects:   m,
			Secret:    func(t *testing.T, s *corev1.Secret) { put(t, s) },
			ConfigMap: func(t *testing.T, c *corev1.ConfigMap) { put(t, c) },
			Delete: func(_ *testing.T, namespace, name string) {
				m.DeleteSecret(namespace, name)
				m.DeleteConfigMap(namespace, name)
			},
		}
	})
}

func TestObjects_dir(t *testing.T) {
	podsynctest.Objects(t, func(t *testing.T, bus *podsync.Bus) podsynctest.ObjectsBackend {
		dir := t.TempDir()
		file := func(kind, namespace, name string) string {
			return filepath.Join(dir, kind+"-"+namespace+"-"+name+".json")
		}
		return podsynctest.ObjectsBackend{
			Objects: &objects.Dir{Path: dir, Bus: bus, Settle: time.Millisecond},
			Secret: func(t *testing.T, s *corev1.Secret) {
				t.Helper()
				place(t, file("secret", s.Namespace, s.Name), s)
			},
			ConfigMap: func(t *testing.T, m *corev1.ConfigMap) {
				t.Helper()
				place(t, file("map", m.Namespace, m.Name), m)
			},
			Delete: func(t *testing.T, namespace, name string) {
				t.Helper()
				must(t, errors.Join(os.Remove(file("secret", namespace, name)), os.Remove(file("map", namespace, name))))
			},
		}
	})
}

func TestSource_memory(t *testing.T) {
	podsynctest.Source(t, func(*testing.T) podsynctest.SourceBackend {
		m := &source.Memory{}
		return podsynctest.SourceBackend{Source: m, Set: func(_ *testing.T, pods ...*corev1.Pod) { m.Set(pods...) }}
	})
}

func TestSource_dir(t *testing.T) {
	podsynctest.Source(t, func(t *testing.T) podsynctest.SourceBackend {
		dir := t.TempDir()
		d := &source.Dir{Path: dir, Node: "node", Settle: time.Millisecond}
		return podsynctest.SourceBackend{
			Source: d,
			Set: func(t *testing.T, pods ...*corev1.Pod) {
				t.Helper()
				keep := map[string]bool{}
				for _, p := range pods {
					keep[p.Name+".json"] = true
					place(t, filepath.Join(dir, p.Name+".json"), p)
				}
				entries, err := os.ReadDir(dir)
				must(t, err)
				for _, e := range entries {
					if !keep[e.Name()] {
						must(t, os.Remove(filepath.Join(dir, e.Name())))
					}
				}
			},
			Break: func(t *testing.T) {
				t.Helper()
				must(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"kind": "Pod", "spec`), 0o600))
				until(t, "the source to see the broken file", func() bool { return len(d.Problems()) > 0 })
			},
		}
	})
}

func TestSource_http(t *testing.T) {
	podsynctest.Source(t, func(t *testing.T) podsynctest.SourceBackend {
		var body atomic.Pointer[corev1.PodList]
		var broken atomic.Bool
		set := func(_ *testing.T, pods ...*corev1.Pod) {
			l := &corev1.PodList{Items: []corev1.Pod{}} // the source refuses null, which could be a list cut short
			l.APIVersion, l.Kind = "v1", "PodList"
			for _, p := range pods {
				l.Items = append(l.Items, *p)
			}
			body.Store(l)
			broken.Store(false)
		}
		set(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				http.Error(w, "down", http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(body.Load())
		}))
		t.Cleanup(server.Close)
		h := &source.HTTP{URL: server.URL, Node: "node", Period: 10 * time.Millisecond, Client: server.Client()}
		return podsynctest.SourceBackend{Source: h, Set: set, Break: func(t *testing.T) {
			t.Helper()
			broken.Store(true)
			until(t, "the source to see that the server is down", func() bool { return len(h.Problems()) > 0 })
		}}
	})
}

// agent is a cri.Runtime on an in-memory runtime, beside another one that makes
// the pods: what it sees is the doing of a process before it, or of the runtime.
type agent struct {
	mem  *memory.Runtime
	rt   *cri.Runtime
	logs string
}

func newAgent(t *testing.T) *agent {
	a := &agent{mem: memory.New(memory.Options{}), logs: t.TempDir()}
	t.Cleanup(a.mem.Shutdown)
	a.rt = a.process(t)
	return a
}

func (a *agent) process(t *testing.T) *cri.Runtime {
	t.Helper()
	rt, err := cri.New(cri.Options{
		Runtime: a.mem, Images: a.mem, RelistMin: 20 * time.Millisecond, CallTimeout: 5 * time.Second,
		Node: func() config.Node { return config.Node{LogsRoot: a.logs} },
	})
	must(t, err)
	return rt
}

// start runs a pod of one container.
func (a *agent) start(t *testing.T, uid types.UID) {
	t.Helper()
	other := a.process(t)
	p := podsynctest.Pod(podsynctest.Named(strings.TrimSuffix(string(uid), "-uid")), podsynctest.UID(uid))
	for range 20 {
		o := other.Sync().Run(t.Context(), podsync.NewSync(p))
		if d, again := o.RetryAfter(); o.Stops() {
			t.Fatalf("start pod %s: %v", uid, o)
		} else if !again || d > 0 {
			return
		}
	}
	t.Fatalf("pod %s does not settle", uid)
}

func TestCleaner_sandboxes(t *testing.T) {
	podsynctest.Cleaner(t, func(t *testing.T) podsynctest.CleanerBackend {
		a := newAgent(t)
		return podsynctest.CleanerBackend{
			Cleaner: a.rt.Cleaner(), Put: a.start,
			Busy: func(_ *testing.T, uid types.UID) func() {
				a.mem.SetIntercept(memory.When(func(c memory.Call) bool { return c.Method == "StopPodSandbox" && c.PodUID == string(uid) },
					memory.Fault{Err: errors.New("cni plugin not initialized")}))
				return func() { a.mem.SetIntercept(nil) }
			},
			Again: func(t *testing.T) podsync.Cleaner { return a.process(t).Cleaner() },
		}
	})
}

func TestCleaner_volumes(t *testing.T) {
	podsynctest.Cleaner(t, func(t *testing.T) podsynctest.CleanerBackend {
		mounter := volumestest.NewMounter()
		var busy sync.Map
		mounter.UnmountFunc = func(target string) error {
			for _, part := range strings.Split(target, string(filepath.Separator)) {
				if _, is := busy.Load(part); is {
					return syscall.EBUSY
				}
			}
			return nil
		}
		root := t.TempDir()
		manager := func(t *testing.T) *volumes.Manager {
			t.Helper()
			m, err := volumes.New(volumes.Options{Layout: volumes.Layout{Root: root}, Mounter: mounter})
			must(t, err)
			return m
		}
		m := manager(t)
		return podsynctest.CleanerBackend{
			Cleaner: volumes.Cleaner(m),
			Put: func(t *testing.T, uid types.UID) {
				t.Helper()
				p := volumestest.Pod(uid, corev1.Volume{Name: "mem", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
				_, err := m.Mount(t.Context(), p)
				must(t, err)
			},
			Busy: func(_ *testing.T, uid types.UID) func() {
				busy.Store(string(uid), true)
				return func() { busy.Delete(string(uid)) }
			},
			Again: func(t *testing.T) podsync.Cleaner { return volumes.Cleaner(manager(t)) },
		}
	})
}

func TestCleaner_cgroups(t *testing.T) {
	podsynctest.Cleaner(t, func(t *testing.T) podsynctest.CleanerBackend {
		root := t.TempDir()
		var mu sync.Mutex
		var busy []types.UID
		inUse := func(_ context.Context, uid types.UID) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(busy, uid), nil
		}
		manager := func(t *testing.T) cgroups.Manager {
			t.Helper()
			m, err := cgroups.NewDir(root, cgroups.Options{})
			must(t, err)
			return m
		}
		m := manager(t)
		return podsynctest.CleanerBackend{
			Cleaner: cgroups.Cleaner(m, inUse),
			Put: func(t *testing.T, uid types.UID) {
				t.Helper()
				_, err := m.Ensure(t.Context(), cgroupstest.Pod(uid, "100m", ""))
				must(t, err)
			},
			Busy: func(_ *testing.T, uid types.UID) func() {
				set := func(uids ...types.UID) { mu.Lock(); defer mu.Unlock(); busy = uids }
				set(uid)
				return func() { set() }
			},
			Again: func(t *testing.T) podsync.Cleaner { return cgroups.Cleaner(manager(t), inUse) },
		}
	})
}

func TestRuntimeView_monitor(t *testing.T) {
	podsynctest.RuntimeView(t, func(t *testing.T) podsynctest.RuntimeViewBackend {
		a := newAgent(t)
		return podsynctest.RuntimeViewBackend{
			View: a.rt.Monitor(), Start: a.start,
			Exit: func(t *testing.T, uid types.UID, code int32) {
				t.Helper()
				must(t, a.mem.Exit(string(uid), "app", code))
			},
			Remove: func(t *testing.T, uid types.UID) {
				t.Helper()
				must(t, a.process(t).Cleaner().Remove(t.Context(), uid))
			},
			Break: func(*testing.T) func() {
				a.mem.Down()
				return a.mem.Up
			},
		}
	})
}
