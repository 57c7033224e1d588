package podsynctest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// RuntimeViewBackend is a podsync.RuntimeView and the runtime behind it.
type RuntimeViewBackend struct {
	// View is what is tested.
	View podsync.RuntimeView
	// Start makes the runtime hold a pod of this agent with one running container.
	Start func(t *testing.T, uid types.UID)
	// Exit ends the pod's container with that code; its sandbox goes on.
	Exit func(t *testing.T, uid types.UID, code int32)
	// Remove takes the pod out of the runtime.
	Remove func(t *testing.T, uid types.UID)
	// Break, if set, makes the runtime unreachable until restore; what Exit does
	// meanwhile happens all the same.
	Break func(t *testing.T) (restore func())
}

// RuntimeView tests an implementation of podsync.RuntimeView. create makes one
// over a runtime that holds nothing; it is called once for each part.
func RuntimeView(t *testing.T, create func(t *testing.T) RuntimeViewBackend) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, k *viewKit)
	}{
		{"a pod that is not there is empty", viewEmpty},
		{"a pod's life is told and seen", viewLife},
		{"what was handed out stays", viewStays},
		{"only what changed is told", viewOthers},
		{"what was missed is made up for", viewOutage},
		{"forgotten is not lost", viewForget},
		{"an ended context does not block", viewEnded},
		{"many at once", viewMany},
	} {
		t.Run(part.name, func(t *testing.T) {
			k := &viewKit{RuntimeViewBackend: create(t), told: map[types.UID]int{}}
			part.run(t, k)
		})
	}
}

type viewKit struct {
	RuntimeViewBackend
	mu   sync.Mutex
	told map[types.UID]int
}

// watch runs Watch until the test ends.
func (k *viewKit) watch(t *testing.T) {
	t.Helper()
	inBackground(t, "Watch", func(ctx context.Context) error {
		return k.View.Watch(ctx, func(uid types.UID) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.told[uid]++
		})
	})
}

// tells returns how often the pod was told of.
func (k *viewKit) tells(uid types.UID) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.told[uid]
}

// sees does something to the pod, and waits until Watch has told of it and
// Observe and Pods say what they should.
func (k *viewKit) sees(t *testing.T, what string, uid types.UID, do func(), ok func(p *podsync.RuntimePod) error, listed bool) {
	t.Helper()
	before := k.tells(uid)
	do()
	eventually(t, func() error {
		if k.tells(uid) == before {
			return fmt.Errorf("%s: Watch has not told of pod %s", what, uid)
		}
		p, err := k.View.Observe(t.Context(), uid)
		if err == nil {
			err = ok(p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		l, err := k.View.Pods(t.Context())
		if err != nil {
			return fmt.Errorf("%s: Pods: %w", what, err)
		}
		if has := slices.ContainsFunc(l, func(p *podsync.RuntimePod) bool { return p.UID == uid }); has != listed {
			return fmt.Errorf("%s: Pods has the pod: %v, want %v", what, has, listed)
		}
		return nil
	})
}

func runs(p *podsync.RuntimePod) error {
	if !p.SandboxReady() || len(p.Containers) != 1 || !p.Containers[0].Running() || p.Containers[0].StartedAt.IsZero() {
		return fmt.Errorf("the pod has no running container in a ready sandbox: %s", viewed(p))
	}
	return nil
}

func ended(code int32) func(p *podsync.RuntimePod) error {
	return func(p *podsync.RuntimePod) error {
		if len(p.Containers) != 1 || p.Containers[0].State != podsync.ContainerExited || p.Containers[0].ExitCode != code || p.Containers[0].FinishedAt.IsZero() {
			return fmt.Errorf("the pod's container has not ended with code %d: %s", code, viewed(p))
		}
		return nil
	}
}

func gone(p *podsync.RuntimePod) error {
	if p == nil || len(p.Sandboxes)+len(p.Containers) > 0 || p.CouldRun() {
		return fmt.Errorf("the pod is not empty: %s", viewed(p))
	}
	return nil
}

func viewed(p *podsync.RuntimePod) string {
	if p == nil {
		return "nil"
	}
	s := fmt.Sprintf("%d sandboxes, ready %v, containers", len(p.Sandboxes), p.SandboxReady())
	for _, c := range p.Containers {
		s += fmt.Sprintf(" %s=%v(%d)", c.Name, c.State, c.ExitCode)
	}
	return s
}

func viewEmpty(t *testing.T, k *viewKit) {
	p, err := k.View.Observe(t.Context(), "view-none")
	if err == nil {
		err = gone(p)
	}
	if err != nil {
		t.Errorf("Observe of an unknown pod: %v", err)
	}
	if l, err := k.View.Pods(t.Context()); err != nil || len(l) > 0 {
		t.Errorf("Pods of an empty runtime: %d, %v", len(l), err)
	}
	k.View.Forget("view-none")
	// What was there before this process is seen without a Watch.
	k.Start(t, "view-old")
	if p, err := k.View.Observe(t.Context(), "view-old"); err != nil || runs(p) != nil {
		t.Errorf("Observe of a pod that runs: %v, %v", err, runs(p))
	}
	if l, err := k.View.Pods(t.Context()); err != nil || len(l) != 1 || l[0].UID != "view-old" || l[0].Name == "" || l[0].Namespace == "" {
		t.Errorf("Pods: %v, %v; want view-old with its name and namespace", l, err)
	}
}

func viewLife(t *testing.T, k *viewKit) {
	k.watch(t)
	k.sees(t, "start", "view-a", func() { k.Start(t, "view-a") }, runs, true)
	k.sees(t, "exit", "view-a", func() { k.Exit(t, "view-a", 3) }, ended(3), true)
	k.sees(t, "removal", "view-a", func() { k.Remove(t, "view-a") }, gone, false)
}

func viewStays(t *testing.T, k *viewKit) {
	k.watch(t)
	k.sees(t, "start", "view-a", func() { k.Start(t, "view-a") }, runs, true)
	p, err := k.View.Observe(t.Context(), "view-a")
	if err != nil {
		t.Fatal(err)
	}
	c := *p.Containers[0]
	s := *p.Sandboxes[0]
	k.sees(t, "exit", "view-a", func() { k.Exit(t, "view-a", 0) }, ended(0), true)
	if d := cmp.Diff(c, *p.Containers[0]) + cmp.Diff(s, *p.Sandboxes[0]); d != "" {
		t.Errorf("what Observe handed out changed (-then +now):\n%s", d)
	}
}

func viewOthers(t *testing.T, k *viewKit) {
	k.watch(t)
	k.sees(t, "start", "view-a", func() { k.Start(t, "view-a") }, runs, true)
	k.sees(t, "start", "view-b", func() { k.Start(t, "view-b") }, runs, true)
	before := k.tells("view-a")
	k.sees(t, "exit", "view-b", func() { k.Exit(t, "view-b", 1) }, ended(1), true)
	if n := k.tells("view-a"); n != before {
		t.Errorf("pod view-a was told of %d times although only view-b changed", n-before)
	}
}

func viewOutage(t *testing.T, k *viewKit) {
	if k.Break == nil {
		t.Log("left out: the runtime is always there")
		return
	}
	k.watch(t)
	k.sees(t, "start", "view-a", func() { k.Start(t, "view-a") }, runs, true)
	k.sees(t, "exit during an outage", "view-a", func() {
		restore := k.Break(t)
		k.Exit(t, "view-a", 7)
		if l, err := k.View.Pods(t.Context()); err == nil && len(l) == 0 {
			t.Error("Pods during an outage: none and no error; that reads as if all were gone")
		}
		restore()
	}, ended(7), true)
}

func viewForget(t *testing.T, k *viewKit) {
	k.watch(t)
	k.sees(t, "start", "view-a", func() { k.Start(t, "view-a") }, runs, true)
	for range 2 {
		k.View.Forget("view-a")
		if p, err := k.View.Observe(t.Context(), "view-a"); err != nil || runs(p) != nil {
			t.Errorf("Observe after Forget: %v, %v", err, runs(p))
		}
	}
	k.sees(t, "exit", "view-a", func() { k.Exit(t, "view-a", 2) }, ended(2), true)
}

func viewEnded(t *testing.T, k *viewKit) {
	k.Start(t, "view-a")
	soon(t, "Observe, Pods and Watch", func(ctx context.Context) {
		if p, err := k.View.Observe(ctx, "view-a"); err == nil && runs(p) != nil {
			t.Errorf("Observe under an ended context: no error, and %v", runs(p))
		}
		if l, err := k.View.Pods(ctx); err == nil && len(l) != 1 {
			t.Errorf("Pods under an ended context: no error, and %d pods", len(l))
		}
		_ = k.View.Watch(ctx, func(types.UID) {})
	})
}

func viewMany(t *testing.T, k *viewKit) {
	k.watch(t)
	var wg sync.WaitGroup
	for i := range 6 {
		uid := types.UID(fmt.Sprintf("view-%d", i))
		k.Start(t, uid)
		for range 2 {
			wg.Go(func() {
				for range 10 {
					if _, err := k.View.Observe(t.Context(), uid); err != nil {
						t.Errorf("Observe: %v", err)
						return
					}
				}
				if _, err := k.View.Pods(t.Context()); err != nil {
					t.Errorf("Pods: %v", err)
				}
			})
		}
	}
	wg.Wait()
	for i := range 6 {
		uid := types.UID(fmt.Sprintf("view-%d", i))
		eventually(t, func() error {
			p, err := k.View.Observe(t.Context(), uid)
			if err != nil {
				return err
			}
			return runs(p)
		})
	}
}
