package podsynctest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// The fakes pass the suites of what they stand for, once a test has given them
// something to hold.

func TestFakeObjects(t *testing.T) {
	podsynctest.Objects(t, func(t *testing.T, bus *podsync.Bus) podsynctest.ObjectsBackend {
		var mu sync.Mutex
		secrets, maps := map[string]*corev1.Secret{}, map[string]*corev1.ConfigMap{}
		return podsynctest.ObjectsBackend{
			Objects: &podsynctest.FakeObjects{
				SecretFunc: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
					mu.Lock()
					defer mu.Unlock()
					if s := secrets[namespace+"/"+name]; s != nil {
						return s, nil
					}
					return nil, podsync.ErrNotFound
				},
				ConfigMapFunc: func(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
					mu.Lock()
					defer mu.Unlock()
					if m := maps[namespace+"/"+name]; m != nil {
						return m, nil
					}
					return nil, podsync.ErrNotFound
				},
			},
			Secret: func(_ *testing.T, s *corev1.Secret) {
				mu.Lock()
				secrets[s.Namespace+"/"+s.Name] = s
				mu.Unlock()
				bus.Publish(podsync.TopicObjectsChanged)
			},
			ConfigMap: func(_ *testing.T, m *corev1.ConfigMap) {
				mu.Lock()
				maps[m.Namespace+"/"+m.Name] = m
				mu.Unlock()
				bus.Publish(podsync.TopicObjectsChanged)
			},
			Delete: func(_ *testing.T, namespace, name string) {
				mu.Lock()
				delete(secrets, namespace+"/"+name)
				delete(maps, namespace+"/"+name)
				mu.Unlock()
				bus.Publish(podsync.TopicObjectsChanged)
			},
		}
	})
}

func TestFakeSource(t *testing.T) {
	podsynctest.Source(t, func(*testing.T) podsynctest.SourceBackend {
		changed := make(chan struct{}, 1)
		var mu sync.Mutex
		var pods []*corev1.Pod
		return podsynctest.SourceBackend{
			Source: &podsynctest.FakeSource{RunFunc: func(ctx context.Context, set func([]*corev1.Pod)) error {
				for {
					mu.Lock()
					now := pods
					mu.Unlock()
					set(now)
					select {
					case <-changed:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}},
			Set: func(_ *testing.T, p ...*corev1.Pod) {
				mu.Lock()
				pods = p
				mu.Unlock()
				select {
				case changed <- struct{}{}:
				default:
				}
			},
		}
	})
}

func TestFakeCleaner(t *testing.T) {
	podsynctest.Cleaner(t, func(*testing.T) podsynctest.CleanerBackend {
		var mu sync.Mutex
		held, busy := map[types.UID]bool{}, map[types.UID]bool{}
		with := func(fn func()) { mu.Lock(); defer mu.Unlock(); fn() }
		c := &podsynctest.FakeCleaner{
			PodsFunc: func(context.Context) (uids []types.UID, _ error) {
				with(func() {
					for uid := range held {
						uids = append(uids, uid)
					}
				})
				return uids, nil
			},
			RemoveFunc: func(_ context.Context, uid types.UID) (err error) {
				with(func() {
					if busy[uid] {
						err = errors.New("in use")
						return
					}
					delete(held, uid)
				})
				return err
			},
		}
		return podsynctest.CleanerBackend{
			Cleaner: c,
			Put:     func(_ *testing.T, uid types.UID) { with(func() { held[uid] = true }) },
			Busy: func(_ *testing.T, uid types.UID) func() {
				with(func() { busy[uid] = true })
				return func() { with(func() { delete(busy, uid) }) }
			},
			Again: func(*testing.T) podsync.Cleaner { return c },
		}
	})
}

func TestFakeRuntimeView(t *testing.T) {
	podsynctest.RuntimeView(t, func(*testing.T) podsynctest.RuntimeViewBackend {
		var mu sync.Mutex
		pods := map[types.UID]*podsync.RuntimePod{}
		changes := make(chan types.UID, 100)
		put := func(uid types.UID, p *podsync.RuntimePod) {
			mu.Lock()
			pods[uid] = p
			if p == nil {
				delete(pods, uid)
			}
			mu.Unlock()
			changes <- uid
		}
		pod := func(uid types.UID, c podsync.RuntimeContainer) *podsync.RuntimePod {
			c.Name, c.StartedAt = "app", time.Unix(1, 0)
			return &podsync.RuntimePod{
				UID: uid, Name: string(uid), Namespace: "default",
				Sandboxes:  []*podsync.RuntimeSandbox{{ID: "s", Ready: true}},
				Containers: []*podsync.RuntimeContainer{&c},
			}
		}
		return podsynctest.RuntimeViewBackend{
			View: &podsynctest.FakeRuntimeView{
				ObserveFunc: func(_ context.Context, uid types.UID) (*podsync.RuntimePod, error) {
					mu.Lock()
					defer mu.Unlock()
					if p := pods[uid]; p != nil {
						return p, nil
					}
					return &podsync.RuntimePod{UID: uid}, nil
				},
				PodsFunc: func(context.Context) (l []*podsync.RuntimePod, _ error) {
					mu.Lock()
					defer mu.Unlock()
					for _, p := range pods {
						l = append(l, p)
					}
					return l, nil
				},
				WatchFunc: func(ctx context.Context, changed func(types.UID)) error {
					for {
						select {
						case uid := <-changes:
							changed(uid)
						case <-ctx.Done():
							return nil
						}
					}
				},
			},
			Start: func(_ *testing.T, uid types.UID) {
				put(uid, pod(uid, podsync.RuntimeContainer{State: podsync.ContainerRunning}))
			},
			Exit: func(_ *testing.T, uid types.UID, code int32) {
				put(uid, pod(uid, podsync.RuntimeContainer{State: podsync.ContainerExited, ExitCode: code, FinishedAt: time.Unix(2, 0)}))
			},
			Remove: func(_ *testing.T, uid types.UID) { put(uid, nil) },
		}
	})
}

// The zero fakes are a node on which nothing happens.
func TestFakes_zero(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := &podsynctest.FakeObjects{}
	if _, err := o.Secret(ctx, "a", "b"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("Secret: %v", err)
	}
	if _, err := o.ConfigMap(ctx, "a", "b"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("ConfigMap: %v", err)
	}
	v := &podsynctest.FakeRuntimeView{}
	v.Forget("u")
	if p, err := v.Observe(ctx, "u"); err != nil || p == nil || p.UID != "u" {
		t.Errorf("Observe: %v, %v", p, err)
	}
	if l, err := v.Pods(ctx); err != nil || len(l) > 0 {
		t.Errorf("Pods: %v, %v", l, err)
	}
	if err := v.Watch(ctx, nil); err != nil {
		t.Errorf("Watch: %v", err)
	}
	r := &podsynctest.FakeReporter{}
	r.Ended(ctx, nil, podsync.PhaseSync, podsync.Continue())
	r.Forget(ctx, "u")
	r.Refresh(nil)
	if _, ok := r.Get("u"); ok {
		t.Error("Get knows a status")
	}
	c := &podsynctest.FakeCleaner{}
	if l, err := c.Pods(ctx); c.Name() != "fake" || err != nil || len(l) > 0 || c.Remove(ctx, "u") != nil {
		t.Errorf("cleaner: %s, %v, %v", c.Name(), l, err)
	}
	s, sets := &podsynctest.FakeSource{SourceName: "mine"}, 0
	if err := s.Run(ctx, func([]*corev1.Pod) { sets++ }); s.Name() != "mine" || err != nil || sets != 1 {
		t.Errorf("source: %s, %d sets, %v", s.Name(), sets, err)
	}
}

func TestFakeReporter(t *testing.T) {
	var got []string
	r := &podsynctest.FakeReporter{
		EndedFunc: func(_ context.Context, s *podsync.Sync, p podsync.Phase, o podsync.Outcome) {
			got = append(got, fmt.Sprint(p, " ", o.Kind()))
		},
		ForgetFunc:  func(_ context.Context, uid types.UID) { got = append(got, "forget "+string(uid)) },
		RefreshFunc: func(*podsync.Sync) { got = append(got, "refresh") },
		GetFunc:     func(types.UID) (corev1.PodStatus, bool) { return corev1.PodStatus{Phase: corev1.PodFailed}, true },
	}
	r.Ended(t.Context(), nil, podsync.PhaseSync, podsync.Done("x"))
	r.Forget(t.Context(), "u")
	r.Refresh(nil)
	if st, ok := r.Get("u"); !ok || st.Phase != corev1.PodFailed {
		t.Errorf("Get: %v, %v", st, ok)
	}
	if want := "[sync Done forget u refresh]"; fmt.Sprint(got) != want {
		t.Errorf("calls: want %s, got %s", want, fmt.Sprint(got))
	}
}

func ExampleFakeObjects() {
	o := &podsynctest.FakeObjects{SecretFunc: func(context.Context, string, string) (*corev1.Secret, error) {
		return nil, errors.New("the store is down")
	}}
	_, err := o.Secret(context.Background(), "default", "login")
	fmt.Println(err)
	_, err = o.ConfigMap(context.Background(), "default", "settings")
	fmt.Println(errors.Is(err, podsync.ErrNotFound))
	// Output:
	// the store is down
	// true
}
