package memory_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cri/memory"
)

// TestManyPodsAtOnce takes many pods through their lives beside readers, listeners and accidents. It is for
// the race detector; what it checks is that one call of many wins, and that nothing is left.
func TestManyPodsAtOnce(t *testing.T) {
	n := newNode(t, memory.Options{Record: 100, Rules: []memory.Rule{memory.Exits("init", 0)}})
	n.pull("busybox")
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_, _ = n.ListContainers(ctx, nil)
				_, _ = n.ListPodSandbox(ctx, nil)
				_, _ = n.ListContainerStats(ctx, nil)
				n.Containers()
				n.Calls()
			}
		})
	}
	events := make(chan *runtimeapi.ContainerEventResponse)
	readers.Go(func() { _ = n.GetContainerEvents(ctx, events, nil) })
	readers.Go(func() {
		for {
			select {
			case <-events:
			case <-ctx.Done():
				return
			}
		}
	})
	for w := range 8 {
		writers.Go(func() {
			for i := range 8 {
				n.life(t, fmt.Sprintf("pod-%d-%d", w, i))
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
	if left := n.Leftovers(); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

// life is a pod from sandbox to removal, with every call made by two at once.
func (n node) life(t *testing.T, name string) {
	twice := func(what string, call func() (string, error)) string {
		var mu sync.Mutex
		var wg sync.WaitGroup
		won := ""
		for range 2 {
			wg.Go(func() {
				if id, err := call(); err == nil {
					mu.Lock()
					defer mu.Unlock()
					if won != "" {
						t.Errorf("%s: %s succeeded twice", name, what)
					}
					won = id
				}
			})
		}
		wg.Wait()
		return won
	}
	ctx := context.WithoutCancel(n.ctx())
	config := podConfig(name)
	sandbox := twice("RunPodSandbox", func() (string, error) { return n.RunPodSandbox(ctx, config, "") })
	for _, c := range []string{"init", "app"} {
		cc := containerConfig(c)
		id := twice("CreateContainer", func() (string, error) { return n.CreateContainer(ctx, sandbox, cc, config) })
		twice("StartContainer", func() (string, error) { return id, n.StartContainer(ctx, id) })
		if c == "app" {
			var wg sync.WaitGroup
			wg.Go(func() { _ = n.StopContainer(ctx, id, 5) })
			wg.Go(func() { _ = n.RemoveContainer(ctx, id) })
			wg.Wait()
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _ = n.StopPodSandbox(ctx, sandbox) })
		wg.Go(func() {
			if err := n.RemovePodSandbox(ctx, sandbox); err != nil {
				t.Errorf("%s: remove: %v", name, err)
			}
		})
	}
	wg.Wait()
}

// TestRandomCalls makes random calls and holds the runtime to a simple model of which names are taken, which
// containers run and which addresses are in use.
func TestRandomCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{Runtime: memory.New(memory.Options{}), ctx: t.Context(), sandboxes: map[string]*modelSandbox{}}
		defer m.Shutdown()
		if _, err := m.PullImage(m.ctx, spec("busybox"), nil, nil); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"run": m.run, "create": m.create, "start": m.start, "stop": m.stop, "remove": m.remove,
			"stopSandbox": m.stopSandbox, "removeSandbox": m.removeSandbox, "": m.check,
		})
		for id := range m.sandboxes {
			if err := m.RemovePodSandbox(m.ctx, id); err != nil {
				rt.Fatal(err)
			}
		}
		if left := m.Leftovers(); len(left) != 0 {
			rt.Errorf("left over: %q", left)
		}
	})
}

type modelSandbox struct {
	name       string
	ready      bool
	containers map[string]*modelContainer
}

type modelContainer struct {
	name  string
	state runtimeapi.ContainerState
}

type model struct {
	*memory.Runtime
	ctx       context.Context
	sandboxes map[string]*modelSandbox
}

// pick draws a sandbox and a container of it; either may be an unknown ID.
func (m *model) pick(t *rapid.T) (s *modelSandbox, sid string, c *modelContainer, cid string) {
	sids := append([]string{"none"}, slices.Sorted(maps.Keys(m.sandboxes))...)
	sid = rapid.SampledFrom(sids).Draw(t, "sandbox")
	s = m.sandboxes[sid]
	cids := []string{"none"}
	if s != nil {
		cids = append(cids, slices.Sorted(maps.Keys(s.containers))...)
	}
	cid = rapid.SampledFrom(cids).Draw(t, "container")
	if s != nil {
		c = s.containers[cid]
	}
	return s, sid, c, cid
}

func want(t *rapid.T, what string, err error, ok bool) bool {
	if (err == nil) != ok {
		t.Fatalf("%s: %v, want success: %v", what, err, ok)
	}
	return ok
}

func (m *model) run(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	free := true
	for _, s := range m.sandboxes {
		free = free && s.name != name
	}
	id, err := m.RunPodSandbox(m.ctx, podConfig(name), "")
	if want(t, "run", err, free) {
		m.sandboxes[id] = &modelSandbox{name, true, map[string]*modelContainer{}}
	}
}

func (m *model) create(t *rapid.T) {
	s, sid, _, _ := m.pick(t)
	name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
	ok := s != nil && s.ready
	if ok {
		for _, c := range s.containers {
			ok = ok && c.name != name
		}
	}
	id, err := m.CreateContainer(m.ctx, sid, containerConfig(name), nil)
	if (status.Code(err) == codes.NotFound) != (s == nil) {
		t.Fatalf("create: %v", err)
	}
	if want(t, "create", err, ok) {
		s.containers[id] = &modelContainer{name, created}
	}
}

func (m *model) start(t *rapid.T) {
	s, _, c, cid := m.pick(t)
	err := m.StartContainer(m.ctx, cid)
	if want(t, "start", err, c != nil && c.state == created && s.ready) {
		c.state = running
	} else if c != nil && c.state == created {
		c.state = exited // the start has failed
	}
}

func (m *model) stop(t *rapid.T) {
	_, _, c, cid := m.pick(t)
	want(t, "stop", m.StopContainer(m.ctx, cid, rapid.Int64Range(0, 5).Draw(t, "grace")), true)
	if c != nil && c.state == running {
		c.state = exited
	}
}

func (m *model) remove(t *rapid.T) {
	s, _, _, cid := m.pick(t)
	want(t, "remove", m.RemoveContainer(m.ctx, cid), true)
	if s != nil {
		delete(s.containers, cid)
	}
}

func (m *model) stopSandbox(t *rapid.T) {
	s, sid, _, _ := m.pick(t)
	want(t, "stop sandbox", m.StopPodSandbox(m.ctx, sid), true)
	if s != nil {
		s.ready = false
		for _, c := range s.containers {
			if c.state == running {
				c.state = exited
			}
		}
	}
}

func (m *model) removeSandbox(t *rapid.T) {
	_, sid, _, _ := m.pick(t)
	want(t, "remove sandbox", m.RemovePodSandbox(m.ctx, sid), true)
	delete(m.sandboxes, sid)
}

func (m *model) check(t *rapid.T) {
	wantStates, gotStates := map[string]string{}, map[string]string{}
	ready := 0
	for id, s := range m.sandboxes {
		if s.ready {
			ready++
		}
		wantStates[id] = fmt.Sprint(s.ready)
		for cid, c := range s.containers {
			wantStates[cid] = c.state.String()
		}
	}
	pods, err := m.ListPodSandbox(m.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	ips := map[string]bool{}
	for _, p := range pods {
		gotStates[p.Id] = fmt.Sprint(p.State == runtimeapi.PodSandboxState_SANDBOX_READY)
		st, err := m.PodSandboxStatus(m.ctx, p.Id, false)
		if err != nil {
			t.Fatal(err)
		}
		if ip := st.Status.Network.Ip; ip != "" {
			ips[ip] = true
		}
	}
	containers, err := m.ListContainers(m.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		gotStates[c.Id] = c.State.String()
	}
	if diff := cmp.Diff(wantStates, gotStates); diff != "" {
		t.Fatalf("states (-want +got):\n%s", diff)
	}
	if len(ips) != ready {
		t.Fatalf("%d ready sandboxes have %d different addresses", ready, len(ips))
	}
}
