package podsynctest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/podsync/store"
)

// amounts makes resources of CPU and memory, request and limit each; "" leaves
// one out.
func amounts(cpuRequest, cpuLimit, memoryRequest, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, mem string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if mem != "" {
			l[corev1.ResourceMemory] = resource.MustParse(mem)
		}
		return l
	}
	return corev1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

// sized is a pod whose app has the resources.
func sized(r corev1.ResourceRequirements, o ...podsynctest.PodOption) *corev1.Pod {
	return podsynctest.Pod(append([]podsynctest.PodOption{func(p *corev1.Pod) { p.Spec.Containers[0].Resources = r }}, o...)...)
}

func restartFor(names ...corev1.ResourceName) podsynctest.PodOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.Containers[0].ResizePolicy = append(p.Spec.Containers[0].ResizePolicy,
				corev1.ContainerResizePolicy{ResourceName: n, RestartPolicy: corev1.RestartContainer})
		}
	}
}

func small() corev1.ResourceRequirements { return amounts("100m", "200m", "32Mi", "64Mi") }
func large() corev1.ResourceRequirements { return amounts("200m", "400m", "64Mi", "128Mi") }

// inForce returns what the runtime holds of the running instance, as
// "shares/quota/memory".
func inForce(n *podsynctest.Node, name string) string {
	var out []string
	for _, c := range n.Runtime.Containers() {
		if c.Name != name || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		st, err := n.Runtime.ContainerStatus(context.Background(), c.ID, false)
		if err != nil {
			return err.Error()
		}
		l := st.Status.Resources.GetLinux()
		out = append(out, fmt.Sprintf("%d/%d/%dMi", l.GetCpuShares(), l.GetCpuQuota(), l.GetMemoryLimitInBytes()>>20))
	}
	return strings.Join(out, " ")
}

const (
	smallForce = "102/20000/64Mi"
	largeForce = "204/40000/128Mi"
)

func pendingReason(s corev1.PodStatus) string {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodResizePending {
			return c.Reason
		}
	}
	return ""
}

func progress(s corev1.PodStatus) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == corev1.PodResizeInProgress {
			return &s.Conditions[i]
		}
	}
	return nil
}

// has tells whether the status shows the app with these resources and no resize
// under way.
func has(r corev1.ResourceRequirements) func(corev1.PodStatus) bool {
	return func(s corev1.PodStatus) bool {
		if !podsynctest.Ready(s) || progress(s) != nil || len(s.ContainerStatuses) == 0 || s.ContainerStatuses[0].Resources == nil {
			return false
		}
		c := s.ContainerStatuses[0]
		same := func(a, b corev1.ResourceList) bool {
			return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
		}
		return same(c.Resources.Limits, r.Limits) && same(c.Resources.Requests, r.Requests) && same(c.AllocatedResources, r.Requests)
	}
}

func TestResizeInPlace(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		pod := sized(small())
		pod.Generation = 1
		n.Apply(pod)
		n.Wait(pod.UID, has(small()))
		for i, to := range []corev1.ResourceRequirements{large(), small(), amounts("100m", "", "32Mi", "64Mi"), small()} {
			pod = sized(to)
			pod.Generation = int64(i + 2)
			n.Apply(pod)
			if st := n.Wait(pod.UID, has(to)); st.ObservedGeneration != pod.Generation {
				t.Errorf("observed generation %d, want %d", st.ObservedGeneration, pod.Generation)
			}
			synctest.Wait()
		}
		if got := inForce(n, "app"); got != smallForce {
			t.Errorf("in force: %s, want %s", got, smallForce)
		}
		if c := container(t, n, "app"); c.Attempt != 0 {
			t.Errorf("the container was restarted: attempt %d", c.Attempt)
		}
		for _, e := range []string{podsync.EventResizeStarted, podsync.EventResizeCompleted} {
			n.WaitEvent(pod.Name, e)
		}
		updates := 0
		for _, l := range n.Runtime.Calls().Lines() {
			if strings.HasPrefix(l, "UpdateContainerResources") {
				updates++
			}
		}
		if updates != 6 { // memory and CPU, memory and CPU, CPU, CPU
			t.Errorf("%d updates of the container, want 6:\n%s", updates, n.Runtime.Calls())
		}
	})
}

func TestResizeWithRestart(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small(), restartFor(corev1.ResourceMemory)))
		n.Wait("web-uid", has(small()))
		n.Apply(sized(amounts("200m", "400m", "32Mi", "64Mi"), restartFor(corev1.ResourceMemory)))
		n.Wait("web-uid", has(amounts("200m", "400m", "32Mi", "64Mi")))
		if c := container(t, n, "app"); c.Attempt != 0 {
			t.Errorf("a resize of the CPU restarted the container: attempt %d", c.Attempt)
		}
		n.Apply(sized(large(), restartFor(corev1.ResourceMemory)))
		n.Wait("web-uid", has(large()))
		if c := container(t, n, "app"); c.Attempt != 1 {
			t.Errorf("attempt %d, want 1", c.Attempt)
		}
		if got := inForce(n, "app"); got != largeForce {
			t.Errorf("in force: %s, want %s", got, largeForce)
		}
	})
}

func TestResizeOfSidecar(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		side := func(r corev1.ResourceRequirements) *corev1.Pod {
			return sized(small(), podsynctest.Sidecar(corev1.Container{Name: "side", Image: "busybox:1", Resources: r}))
		}
		n.Apply(side(small()))
		n.WaitRunning("web-uid")
		n.Apply(side(large()))
		n.WaitEvent("web", podsync.EventResizeCompleted)
		if got := inForce(n, "side"); got != largeForce {
			t.Errorf("in force: %s, want %s", got, largeForce)
		}
	})
}

func TestResizeOfThePodLevel(t *testing.T) {
	level := func(r corev1.ResourceRequirements) *corev1.Pod {
		return podsynctest.Pod(func(p *corev1.Pod) { p.Spec.Resources = &r })
	}
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(level(small()))
		n.WaitRunning("web-uid")
		n.Apply(level(large()))
		n.WaitEvent("web", podsync.EventResizeCompleted)
		if got := inForce(n, "app"); !strings.HasSuffix(got, "/40000/128Mi") {
			t.Errorf("in force: %s, want the pod's limits", got)
		}
		st := n.Wait("web-uid", func(s corev1.PodStatus) bool { return progress(s) == nil })
		if st.Resources == nil || st.Resources.Limits.Cpu().String() != "400m" || st.AllocatedResources.Cpu().String() != "200m" {
			t.Errorf("status has resources %v, allocated %v", st.Resources, st.AllocatedResources)
		}
	})
}

// tight is a node with room for so much CPU.
func tight(cpu string, st store.Store) func(*node.Config) {
	return func(c *node.Config) {
		c.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		c.Store = st
	}
}

// TestResizeIsDeferred: a resize that does not fit waits, keeps waiting over a
// restart, and is given when another pod leaves; by priority.
func TestResizeIsDeferred(t *testing.T) {
	st := &store.Memory{}
	bubbleNode(t, "", podsynctest.NodeOptions{Change: tight("300m", st)}, func(t *testing.T, n *podsynctest.Node) {
		prio := func(v int32) podsynctest.PodOption { return func(p *corev1.Pod) { p.Spec.Priority = &v } }
		low := func(r corev1.ResourceRequirements) *corev1.Pod { return sized(r, podsynctest.Named("low"), prio(1)) }
		high := func(r corev1.ResourceRequirements) *corev1.Pod { return sized(r, podsynctest.Named("high"), prio(9)) }
		other := sized(small(), podsynctest.Named("other"))
		n.Apply(low(small()), high(small()), other)
		for _, uid := range []string{"low-uid", "high-uid", "other-uid"} {
			n.WaitRunning(podsynctest.Pod(podsynctest.Named(strings.TrimSuffix(uid, "-uid"))).UID)
		}
		n.Apply(low(large()))
		n.Wait("low-uid", func(s corev1.PodStatus) bool { return pendingReason(s) == corev1.PodReasonDeferred })
		n.Apply(high(large()))
		n.Wait("high-uid", func(s corev1.PodStatus) bool { return pendingReason(s) == corev1.PodReasonDeferred })
		n.WaitEvent("low", podsync.EventResizeDeferred)
		n.Restart()
		for _, name := range []string{"low", "high"} {
			s := n.Wait(podsynctest.Pod(podsynctest.Named(name)).UID, func(s corev1.PodStatus) bool {
				return pendingReason(s) == corev1.PodReasonDeferred && podsynctest.Ready(s)
			})
			if got := s.ContainerStatuses[0].AllocatedResources.Cpu().String(); got != "100m" {
				t.Errorf("%s was given %s after a restart, want what it had", name, got)
			}
		}
		n.Delete(other.UID)
		n.Wait("high-uid", has(large()))
		n.Wait("low-uid", func(s corev1.PodStatus) bool { return pendingReason(s) == corev1.PodReasonDeferred })
		n.Delete("high-uid")
		n.Wait("low-uid", func(s corev1.PodStatus) bool { return has(large())(s) && pendingReason(s) == "" })
		n.Delete("low-uid")
		n.WaitGone("low-uid")
		for _, bucket := range []string{"allocated", "actuated"} {
			if l, _ := st.List(t.Context(), bucket); len(l) > 0 {
				t.Errorf("left in the store, bucket %s: %v", bucket, l)
			}
		}
	})
}

// TestResizeThatShrinksWakesTheDeferred: what a resize gives back goes to one
// that waits for it.
func TestResizeThatShrinksWakesTheDeferred(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{Change: tight("300m", nil)}, func(t *testing.T, n *podsynctest.Node) {
		a := func(r corev1.ResourceRequirements) *corev1.Pod { return sized(r, podsynctest.Named("a")) }
		b := func(r corev1.ResourceRequirements) *corev1.Pod { return sized(r, podsynctest.Named("b")) }
		n.Apply(a(large()), b(small()))
		n.WaitRunning("a-uid")
		n.WaitRunning("b-uid")
		n.Apply(b(large()))
		n.Wait("b-uid", func(s corev1.PodStatus) bool { return pendingReason(s) == corev1.PodReasonDeferred })
		n.Apply(a(small()))
		n.Wait("a-uid", has(small()))
		n.Wait("b-uid", has(large()))
	})
}

func TestResizeIsInfeasible(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		n.Apply(sized(amounts("200m", "200m", "64Mi", "64Mi"))) // would be Guaranteed
		s := n.Wait("web-uid", func(s corev1.PodStatus) bool { return pendingReason(s) == corev1.PodReasonInfeasible })
		n.WaitEvent("web", podsync.EventResizeInfeasible)
		if s.QOSClass != corev1.PodQOSBurstable || inForce(n, "app") != smallForce {
			t.Errorf("class %s, in force %s: something was changed", s.QOSClass, inForce(n, "app"))
		}
		n.Apply(sized(large()))
		n.Wait("web-uid", func(s corev1.PodStatus) bool { return has(large())(s) && pendingReason(s) == "" })
	})
}

// TestResizeBelowUse: a memory limit is not lowered below what is used.
func TestResizeBelowUse(t *testing.T) {
	uses := memory.Named("app", memory.Behaviour{Usage: memory.Usage{MemoryBytes: 100 << 20}})
	bubbleNode(t, "", podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{uses}}}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(large()))
		n.Wait("web-uid", has(large()))
		n.Apply(sized(small()))
		s := n.Wait("web-uid", func(s corev1.PodStatus) bool {
			return progress(s) != nil && progress(s).Reason == corev1.PodReasonError
		})
		n.WaitEvent("web", podsync.EventResizeError)
		if !strings.Contains(progress(s).Message, "uses") || inForce(n, "app") != largeForce {
			t.Errorf("%q, in force %s: want nothing applied and the reason told", progress(s).Message, inForce(n, "app"))
		}
		n.Apply(sized(large()))
		n.Wait("web-uid", has(large()))
	})
}

// TestResizeWithPowerCuts: whatever write into the runtime the power goes at,
// the resize comes about, with one instance.
func TestResizeWithPowerCuts(t *testing.T) {
	for name, o := range map[string][]podsynctest.PodOption{"in place": nil, "with a restart": {restartFor(corev1.ResourceMemory)}} {
		for _, to := range []corev1.ResourceRequirements{large(), amounts("100m", "200m", "16Mi", "32Mi")} {
			for _, moment := range []memory.Moment{memory.Before, memory.After} {
				for at := 1; ; at++ {
					happened := false
					st := &store.Memory{}
					label := fmt.Sprintf("%s, to %s, %v %d", name, to.Limits.Memory(), moment, at)
					bubbleNode(t, label, podsynctest.NodeOptions{Change: func(c *node.Config) { c.Store = st }}, func(t *testing.T, n *podsynctest.Node) {
						n.Apply(sized(small(), o...))
						n.Wait("web-uid", has(small()))
						n.WaitRunning("web-uid")
						synctest.Wait()
						n.Apply(sized(to, o...))
						happened = n.PowerCut(at, moment, func() bool { return has(to)(n.Status("web-uid")) })
						n.Wait("web-uid", has(to))
						synctest.Wait()
						want := "204/40000/128Mi"
						if to.Limits.Memory().Value() == 32<<20 {
							want = "102/20000/32Mi"
						}
						if got := inForce(n, "app"); got != want {
							t.Errorf("in force: %q, want %q\n%s", got, want, n.Runtime.Calls())
						}
					})
					if !happened {
						break
					}
					if at > 20 {
						t.Fatal("no end of the writes")
					}
				}
			}
		}
	}
}

// dyingStore loses its power at the n-th write: from there nothing is written.
type dyingStore struct {
	store.Memory
	mu    sync.Mutex
	left  int
	after bool // the write at which it dies is still done
	dead  chan struct{}
}

var errDead = errors.New("no power")

func (d *dyingStore) write() (do bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.left < 0:
		return true, nil
	case d.left > 1:
		d.left--
		return true, nil
	case d.left == 1:
		d.left = 0
		close(d.dead)
		return d.after, errDead
	}
	return false, errDead
}

func (d *dyingStore) Put(ctx context.Context, bucket, key string, v []byte) error {
	do, err := d.write()
	if do {
		if e := d.Memory.Put(ctx, bucket, key, v); e != nil {
			return e
		}
	}
	return err
}

// TestResizeWithALostStore: the agent ends at any write of its records, before
// or after it, and the next one brings the resize about.
func TestResizeWithALostStore(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 1; at <= 3; at++ {
			d := &dyingStore{left: -1, after: after}
			bubbleNode(t, fmt.Sprintf("%v %d", after, at), podsynctest.NodeOptions{Change: func(c *node.Config) { c.Store = d }}, func(t *testing.T, n *podsynctest.Node) {
				n.Apply(sized(small()))
				n.Wait("web-uid", has(small()))
				synctest.Wait()
				d.mu.Lock()
				d.left, d.dead = at, make(chan struct{})
				d.mu.Unlock()
				n.Apply(sized(large()))
				select {
				case <-d.dead:
				case <-time.After(time.Minute):
					t.Fatal("the write did not come")
				}
				n.Stop()
				d.mu.Lock()
				d.left = -1
				d.mu.Unlock()
				n.Start()
				n.Wait("web-uid", has(large()))
				if got := inForce(n, "app"); got != largeForce {
					t.Errorf("in force: %s, want %s", got, largeForce)
				}
				if c := container(t, n, "app"); c.Attempt != 0 {
					t.Errorf("the container was restarted")
				}
			})
		}
	}
}

// limits is a cgroups.Manager that notes the memory limits it is asked for,
// beside the runtime's calls.
type limits struct {
	cgroups.Noop
	mu   sync.Mutex
	rt   *memory.Runtime
	seen []string
}

func (l *limits) Ensure(_ context.Context, p *corev1.Pod) (string, error) {
	r := (&cgroups.Values{}).ForPod(p)
	updates := 0
	for _, c := range l.rt.Calls().Lines() {
		if strings.HasPrefix(c, "UpdateContainerResources") {
			updates++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := fmt.Sprintf("%dMi after %d", r.Memory>>20, updates); !slices.Contains(l.seen, s) {
		l.seen = append(l.seen, s)
	}
	return "/pod", nil
}

// TestResizeAndThePodCgroup: it is raised before its containers and lowered after.
func TestResizeAndThePodCgroup(t *testing.T) {
	l := &limits{}
	change := func(c *node.Config) {
		c.Cgroups = l
		l.rt, _ = c.Runtime.(*memory.Runtime)
	}
	bubbleNode(t, "", podsynctest.NodeOptions{Change: change}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		n.Apply(sized(large()))
		n.Wait("web-uid", has(large()))
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		want := []string{"64Mi after 0", "128Mi after 0", "128Mi after 2", "64Mi after 4"}
		if !slices.Equal(l.seen, want) {
			t.Errorf("limits of the pod's cgroup and updates of the container before them: %q, want %q", l.seen, want)
		}
	})
}

// TestManifestResizes: a manifest in which only amounts change is the same pod.
func TestManifestResizes(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
    image: busybox:1
    resources: {requests: {cpu: %s, memory: 32Mi}, limits: {cpu: %s, memory: 64Mi}}
`
	dir := t.TempDir()
	write := func(request, limit string) {
		t.Helper()
		tmp := filepath.Join(t.TempDir(), "web.yaml")
		if err := errors.Join(os.WriteFile(tmp, fmt.Appendf(nil, text, request, limit), 0o600), os.Rename(tmp, filepath.Join(dir, "web.yaml"))); err != nil {
			t.Fatal(err)
		}
	}
	write("100m", "200m")
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: func(c *node.Config) {
		c.Sources = []podsync.Source{&source.Dir{Path: dir, Node: "edge-1"}}
	}})
	wait := func(force string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); inForce(n, "app") != force; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("in force: %q, want %q\n%s", inForce(n, "app"), force, n.Explain())
			}
		}
	}
	wait("102/20000/64Mi")
	write("200m", "400m")
	wait("204/40000/64Mi")
	n.Restart()
	write("100m", "400m")
	wait("102/40000/64Mi")
	if c := container(t, n, "app"); c.Attempt != 0 || len(n.Runtime.Containers()) != 1 {
		t.Errorf("attempt %d, %d containers: the pod was replaced", c.Attempt, len(n.Runtime.Containers()))
	}
}

// TestAdoptedContainersAreResized: one that carries no record of its resources
// is taken to have what its pod says, and is resized from there.
func TestAdoptedContainersAreResized(t *testing.T) {
	bubbleNode(t, "", podsynctest.NodeOptions{}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		n.Stop()
		for _, c := range n.Runtime.Containers() {
			delete(c.Config.Annotations, cri.ResourcesAnnotation)
		}
		n.Start()
		n.Wait("web-uid", has(small()))
		synctest.Wait()
		if i := index(n.Runtime.Calls(), "UpdateContainerResources"); i >= 0 {
			t.Errorf("a container was updated for no reason")
		}
		n.Apply(sized(large()))
		n.Wait("web-uid", has(large()))
	})
}

// TestResizeWithNoStore: what a container really has is taken from the runtime
// when the records of its resizes died with the agent.
func TestResizeWithNoStore(t *testing.T) {
	l := &limits{}
	change := func(c *node.Config) {
		c.Cgroups = l
		l.rt, _ = c.Runtime.(*memory.Runtime)
	}
	bubbleNode(t, "", podsynctest.NodeOptions{Change: change}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		n.Apply(sized(large()))
		n.Wait("web-uid", has(large()))
		synctest.Wait()
		n.Stop()
		middle := amounts("150m", "300m", "32Mi", "96Mi")
		n.Apply(sized(middle))
		l.mu.Lock()
		l.seen = nil
		l.mu.Unlock()
		n.Start()
		n.Wait("web-uid", has(middle))
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		// The container has 128Mi, whatever its annotation says.
		if want := []string{"128Mi after 2", "96Mi after 4"}; !slices.Equal(l.seen, want) {
			t.Errorf("limits of the pod's cgroup: %q, want %q", l.seen, want)
		}
	})
}

// TestResizeWhoseReplyIsLost: an update that was done although it failed is not
// forgotten: asked back to what it was, the container gets that again.
func TestResizeWhoseReplyIsLost(t *testing.T) {
	lose := memory.Times(1, memory.LoseReply("UpdateContainerResources", nil))
	bubbleNode(t, "", podsynctest.NodeOptions{Memory: memory.Options{Intercept: lose}}, func(t *testing.T, n *podsynctest.Node) {
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		n.Apply(sized(large()))
		n.Wait("web-uid", func(s corev1.PodStatus) bool {
			return progress(s) != nil && progress(s).Reason == corev1.PodReasonError
		})
		n.Apply(sized(small()))
		n.Wait("web-uid", has(small()))
		synctest.Wait()
		if got := inForce(n, "app"); got != smallForce {
			t.Errorf("in force: %s, want %s", got, smallForce)
		}
	})
}
