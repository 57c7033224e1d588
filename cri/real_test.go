package cri_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/internal/realruntime"
	"github.com/podsync/sdk/internal/realruntime/runtimetest"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// realNode is a Runtime on a private containerd.
type realNode struct {
	*runtimetest.Node
	rt     *cri.Runtime
	remote *remote.Remote
	logs   string
}

func startReal(tb testing.TB) *realNode {
	tb.Helper()
	n := &realNode{Node: runtimetest.Start(tb, realruntime.Config{}), logs: tb.TempDir()}
	r, err := remote.Dial(tb.Context(), remote.Options{Endpoint: n.Endpoint(), Wait: 10 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close(context.WithoutCancel(tb.Context())) })
	n.remote = r
	n.rt, err = cri.New(cri.Options{Runtime: r.Runtime(), Images: r.Images(), Node: func() config.Node { return config.Node{LogsRoot: n.logs} }})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func (n *realNode) pod(name string, o ...podsynctest.PodOption) *corev1.Pod {
	p := podsynctest.Pod(append([]podsynctest.PodOption{podsynctest.Named(name)}, o...)...)
	for _, cs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			cs[i].Image = n.Registry.Image("busybox:1")
			if len(cs[i].Command) == 0 {
				cs[i].Command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"}
			}
		}
	}
	return p
}

// run runs the stage until it has nothing more to do at once.
func (n *realNode) run(tb testing.TB, pod *corev1.Pod) podsync.Outcome {
	tb.Helper()
	s := podsync.NewSync(pod)
	for range 50 {
		out := n.rt.Sync().Run(tb.Context(), s)
		if d, again := out.RetryAfter(); out.Stops() || !again || d > 0 {
			return out
		}
	}
	tb.Fatal("the pod does not settle")
	return podsync.Continue()
}

func (n *realNode) stop(tb testing.TB, pod *corev1.Pod) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	s := podsync.NewSync(pod, podsync.WithGrace(5*time.Second))
	for _, st := range []podsync.Stage{n.rt.StopContainers(), n.rt.VerifyStopped()} {
		if out := st.Run(ctx, s); out.Stops() {
			tb.Errorf("%s: %v", st.Name(), out)
		}
	}
	if err := n.rt.Cleaner().Remove(ctx, pod.UID); err != nil {
		tb.Error(err)
	}
}

// TestReal starts, watches, restarts and stops a pod on containerd.
func TestReal(t *testing.T) {
	n := startReal(t)
	pod := n.pod("web", podsynctest.Init(corev1.Container{Name: "i", Command: []string{"sh", "-c", "echo ready"}}), sidecar("s"),
		podsynctest.Container(corev1.Container{Name: "app", Lifecycle: &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
			PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}}))
	if v := n.remote.Version(); v.Runtime != "containerd" || v.API != "v1" {
		t.Errorf("version: %+v", v)
	}
	if d, err := n.remote.CgroupDriver(t.Context()); err != nil || d != remote.CgroupDriverCgroupfs {
		t.Errorf("cgroup driver: %s, %v", d, err)
	}
	if st, err := n.remote.Status(t.Context()); err != nil || !st.RuntimeReady || !st.NetworkReady {
		t.Errorf("status: %+v, %v", st, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan types.UID, 100)
	done := make(chan error, 1)
	go func() {
		done <- n.rt.Monitor().Watch(ctx, func(uid types.UID) {
			select {
			case woken <- uid:
			default:
			}
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	defer n.stop(t, pod)

	plain := n.pod("plain")
	defer n.stop(t, plain)
	n.run(t, plain)
	n.quiet(t, woken)

	out := n.run(t, pod)
	for began := time.Now(); time.Since(began) < 30*time.Second; out = n.run(t, pod) {
		if p := n.observe(t, pod); p.Container("app") != nil && p.Container("app").Running() {
			break
		}
		select {
		case <-woken:
		case <-time.After(5 * time.Second):
			t.Fatalf("nothing wakes the pod; last outcome %v", out)
		}
	}
	p := n.observe(t, pod)
	if len(p.IPs) != 1 || len(p.Sandboxes) != 1 || p.Container("i").ExitCode != 0 || !p.Container("s").Running() {
		t.Errorf("pod: %+v", p)
	}
	if logs, err := filepath.Glob(filepath.Join(n.logs, "default_web_web-uid", "*", "0.log")); err != nil || len(logs) != 3 {
		t.Errorf("logs: %v, %v", logs, err)
	}
	for len(woken) > 0 {
		<-woken
	}
	n.quiet(t, woken)

	// A container that ends by itself is started again.
	if err := n.remote.Runtime().StopContainer(t.Context(), p.Container("app").ID, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(5 * time.Second):
		t.Error("the exit of a container wakes nobody")
	}
	if out := n.run(t, pod); out.Stops() {
		t.Errorf("restart: %v", out)
	}
	if c := n.observe(t, pod).Container("app"); !c.Running() || c.RestartCount != 1 {
		t.Errorf("after the restart: %+v", c)
	}
}

// quiet checks that a pod to which nothing happens is not woken.
func (n *realNode) quiet(t *testing.T, woken <-chan types.UID) {
	t.Helper()
	select {
	case uid := <-woken:
		t.Errorf("pod %s is woken although nothing happens but its own start", uid)
	case <-time.After(2500 * time.Millisecond):
	}
}

func (n *realNode) observe(tb testing.TB, pod *corev1.Pod) *podsync.RuntimePod {
	tb.Helper()
	p, err := n.rt.Monitor().Observe(tb.Context(), pod.UID)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// timed adds up how long the runtime's own calls take.
type timed struct {
	internalapi.RuntimeService
	spent atomic.Int64
}

func (t *timed) add(began time.Time) { t.spent.Add(int64(time.Since(began))) }

func (t *timed) RunPodSandbox(ctx context.Context, c *runtimeapi.PodSandboxConfig, h string) (string, error) {
	defer t.add(time.Now())
	return t.RuntimeService.RunPodSandbox(ctx, c, h)
}

func (t *timed) CreateContainer(ctx context.Context, id string, c *runtimeapi.ContainerConfig, s *runtimeapi.PodSandboxConfig) (string, error) {
	defer t.add(time.Now())
	return t.RuntimeService.CreateContainer(ctx, id, c, s)
}

func (t *timed) StartContainer(ctx context.Context, id string) error {
	defer t.add(time.Now())
	return t.RuntimeService.StartContainer(ctx, id)
}

// BenchmarkRealStart compares the start of a pod of one container, image
// present, with the three calls that it cannot do without.
func BenchmarkRealStart(b *testing.B) {
	n := startReal(b)
	svc := &timed{RuntimeService: n.remote.Runtime()}
	rt, err := cri.New(cri.Options{Runtime: svc, Images: n.remote.Images(), Node: func() config.Node { return config.Node{LogsRoot: n.logs} }})
	if err != nil {
		b.Fatal(err)
	}
	n.rt = rt
	warm := n.pod("warm")
	n.run(b, warm)
	n.stop(b, warm)
	var ratios []float64
	k := 0
	for b.Loop() {
		k++
		pod := n.pod(fmt.Sprintf("p%d", k))
		svc.spent.Store(0)
		began := time.Now()
		if out := n.rt.Sync().Run(b.Context(), podsync.NewSync(pod)); out.Stops() {
			b.Fatal(out)
		}
		ratios = append(ratios, float64(time.Since(began))/float64(svc.spent.Load()))
		b.StopTimer()
		n.stop(b, pod)
		b.StartTimer()
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-floor")
}
