// Package cptest holds the tests that need a real API server.
package cptest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/internal/controlplane"
	"github.com/podsync/sdk/internal/realruntime"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/node/cluster"
	"github.com/podsync/sdk/podsync/source"
)

// programs is where the control plane's are, or the test is skipped.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := realruntime.LocateBin()
	if err != nil {
		t.Skip(err)
	}
	bin = filepath.Join(bin, "cluster")
	for _, p := range controlplane.Programs() {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			t.Skipf("needs the control plane (make cluster): %v", err)
		}
	}
	return bin
}

// start starts a control plane, or skips.
func start(t *testing.T, nodes ...string) *controlplane.Cluster {
	t.Helper()
	bin := programs(t)
	c, err := controlplane.Start(t.Context(), controlplane.Config{Bin: bin, Dir: t.TempDir(), Nodes: nodes, Controllers: true, Scheduler: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func client(t *testing.T, c *controlplane.Cluster, token string) *kubeclient.Client {
	t.Helper()
	k, err := kubeclient.New(&rest.Config{Host: c.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CA}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// agent is a whole node on the in-memory runtime.
type agent struct {
	*node.Node
	runtime *memory.Runtime
	static  *source.Memory
	cluster *cluster.Cluster
	stop    func()
}

// run starts a node of that name; it stops with the test, or by its stop.
func run(t *testing.T, c *controlplane.Cluster, name, root string, rt *memory.Runtime, change func(*node.Config)) *agent {
	t.Helper()
	a := &agent{runtime: rt, static: &source.Memory{}}
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	cfg := node.Config{
		Name: name, IPs: []string{"192.0.2.7"}, Root: root, Runtime: rt, Images: rt, RuntimeName: "memory", Unprivileged: true,
		Capacity: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110")},
		Sources:  []podsync.Source{a.static}, Logger: log,
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if a.cluster, err = cluster.New(cluster.Config{Client: client(t, c, controlplane.Token(name)), Node: &cfg, Logger: log}); err != nil {
		t.Fatal(err)
	}
	if a.Node, err = node.New(cfg); err != nil {
		t.Fatal(err)
	}
	a.cluster.Attach(a.Node)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.cluster.Run(ctx) })
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	a.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(a.stop)
	return a
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// user does what a person with kubectl does.
type user struct {
	t *testing.T
	k *kubeclient.Client
}

func (u user) create(pod *corev1.Pod) *corev1.Pod {
	u.t.Helper()
	out := &corev1.Pod{}
	// The default service account comes with the controller manager's first pass.
	u.until("pod "+pod.Name+" is created", func() bool {
		err := u.k.Core.Post().Namespace(pod.Namespace).Resource("pods").Body(pod).Do(u.t.Context()).Into(out)
		if err != nil && !apierrors.IsForbidden(err) {
			u.t.Fatal(err)
		}
		return err == nil
	})
	return out
}

// get returns nil when there is no such pod.
func (u user) get(name string) *corev1.Pod {
	u.t.Helper()
	out := &corev1.Pod{}
	err := u.k.Core.Get().Namespace("default").Resource("pods").Name(name).Do(u.t.Context()).Into(out)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

func (u user) delete(name string) {
	u.t.Helper()
	if err := u.k.Core.Delete().Namespace("default").Resource("pods").Name(name).Do(u.t.Context()).Error(); err != nil {
		u.t.Fatal(err)
	}
}

func (u user) until(what string, cond func() bool) {
	u.t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			u.t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// becomes waits for a pod to be as cond wants it.
func (u user) becomes(name, what string, cond func(*corev1.Pod) bool) *corev1.Pod {
	u.t.Helper()
	var pod *corev1.Pod
	defer func() {
		if u.t.Failed() && pod != nil {
			u.t.Logf("pod %s: %+v", name, pod.Status)
		}
	}()
	u.until("pod "+name+" "+what, func() bool {
		pod = u.get(name)
		return pod != nil && cond(pod)
	})
	return pod
}

func running(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
}

func pod(name string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.test/main:1"}},
			TerminationGracePeriodSeconds: &grace,
		},
	}
}

func bound(name, node string) *corev1.Pod {
	p := pod(name)
	p.Spec.NodeName = node
	return p
}

func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// A pod that is scheduled to the node runs, and is gone once it was deleted.
func TestPodOfTheCluster(t *testing.T) {
	c := start(t, "edge-1")
	rt := memory.New(memory.Options{})
	defer rt.Close(t.Context())
	run(t, c, "edge-1", t.TempDir(), rt, nil)
	u := user{t, client(t, c, c.AdminToken())}

	u.create(pod("web")) // the scheduler finds the node
	p := u.becomes("web", "runs", running)
	if p.Status.HostIP != "192.0.2.7" || p.Status.PodIP == "" || p.Status.StartTime == nil || p.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status = %+v", p.Status)
	}
	if r := condition(p, corev1.PodReady); r == nil || r.Status != corev1.ConditionTrue || r.ObservedGeneration != p.Generation {
		t.Errorf("Ready = %+v, generation %d", r, p.Generation)
	}

	// A condition of somebody else survives (STA-05), and what somebody wrote over
	// the agent's is put right.
	patch := []byte(`{"status":{"conditions":[{"type":"example.com/gate","status":"True"},{"type":"Ready","status":"False"}]}}`)
	if err := u.k.Core.Patch(types.StrategicMergePatchType).Namespace("default").Resource("pods").Name("web").SubResource("status").Body(patch).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	u.becomes("web", "is Ready again and keeps the foreign condition", func(p *corev1.Pod) bool {
		g, r := condition(p, "example.com/gate"), condition(p, corev1.PodReady)
		return g != nil && g.Status == corev1.ConditionTrue && r != nil && r.Status == corev1.ConditionTrue
	})

	u.delete("web")
	u.until("pod web is gone", func() bool { return u.get("web") == nil })
}

func TestRejectedPodOfTheClusterFinishes(t *testing.T) {
	c := start(t, "edge-1")
	rt := memory.New(memory.Options{})
	defer rt.Close(t.Context())
	run(t, c, "edge-1", t.TempDir(), rt, nil)
	u := user{t, client(t, c, c.AdminToken())}

	big := bound("big", "edge-1")
	big.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("64")}
	u.create(big)
	p := u.becomes("big", "is refused", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if p.Status.Reason != "OutOfcpu" {
		t.Errorf("reason = %q: %s", p.Status.Reason, p.Status.Message)
	}
	u.delete("big")
	u.until("pod big is gone", func() bool { return u.get("big") == nil })
}

// STA-08 and STA-09: a static pod's mirror is somebody's to delete and the
// agent's to make; the static pod does not notice.
func TestMirrors(t *testing.T) {
	c := start(t, "edge-1")
	rt := memory.New(memory.Options{})
	defer rt.Close(t.Context())
	a := run(t, c, "edge-1", t.TempDir(), rt, nil)
	u := user{t, client(t, c, c.AdminToken())}
	u.until("the node is registered", func() bool { return a.cluster.Registration.UID() != "" })

	static := bound("static-edge-1", "edge-1")
	static.UID = "11111111-2222-3333-4444-555555555555"
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "hash-1"}
	a.static.Set(static)
	first := u.becomes("static-edge-1", "has a mirror that runs", running)
	if first.UID == static.UID || first.Annotations["kubernetes.io/config.mirror"] != "hash-1" {
		t.Errorf("mirror: uid %s, annotations %v", first.UID, first.Annotations)
	}
	container := first.Status.ContainerStatuses[0].ContainerID

	t.Run("STA-08", func(t *testing.T) {
		u := user{t, u.k}
		u.delete("static-edge-1")
		p := u.becomes("static-edge-1", "has a new mirror", func(p *corev1.Pod) bool { return p.UID != first.UID && running(p) })
		if got := p.Status.ContainerStatuses[0].ContainerID; got != container {
			t.Errorf("container is now %s, was %s", got, container)
		}
	})
	t.Run("STA-09", func(t *testing.T) {
		u := user{t, u.k}
		before := u.get("static-edge-1")
		time.Sleep(time.Second) // a mirror that is made again and again would show by now
		if now := u.get("static-edge-1"); now.UID != before.UID {
			t.Errorf("mirror %s became %s although nothing changed", before.UID, now.UID)
		}
		edited := static.DeepCopy()
		edited.UID = "11111111-2222-3333-4444-666666666666"
		edited.Annotations["kubernetes.io/config.hash"] = "hash-2"
		a.static.Set(edited)
		u.becomes("static-edge-1", "has the mirror of the new content", func(p *corev1.Pod) bool {
			return p.UID != before.UID && p.Annotations["kubernetes.io/config.mirror"] == "hash-2" && running(p)
		})
	})
	t.Run("removed", func(t *testing.T) {
		u := user{t, u.k}
		a.static.Set()
		u.until("the mirror is gone", func() bool { return u.get("static-edge-1") == nil })
	})
}

// The API server goes away: what runs goes on, and what happened meanwhile is
// told when it is back.
func TestAPIServerAway(t *testing.T) {
	c := start(t, "edge-1")
	rt := memory.New(memory.Options{})
	defer rt.Close(t.Context())
	a := run(t, c, "edge-1", t.TempDir(), rt, nil)
	u := user{t, client(t, c, c.AdminToken())}
	u.create(bound("web", "edge-1"))
	p := u.becomes("web", "runs", running)

	c.StopAPIServer()
	static := bound("late-edge-1", "edge-1")
	static.UID = "11111111-2222-3333-4444-777777777777"
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h"}
	a.static.Set(static)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := a.Status.Wait(ctx, static.UID, func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning }); err != nil {
		t.Fatalf("a static pod does not start without the API server: %v", err)
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.becomes("late-edge-1", "has a mirror", running)
	if now := u.becomes("web", "runs", running); now.Status.ContainerStatuses[0].ContainerID != p.Status.ContainerStatuses[0].ContainerID {
		t.Error("the container was replaced")
	}
}

// The agent starts again with the pods of before, one of them deleted meanwhile.
func TestAgentStartsAgain(t *testing.T) {
	c := start(t, "edge-1")
	rt := memory.New(memory.Options{})
	defer rt.Close(t.Context())
	root := t.TempDir()
	a := run(t, c, "edge-1", root, rt, nil)
	u := user{t, client(t, c, c.AdminToken())}
	u.create(bound("stays", "edge-1"))
	u.create(bound("goes", "edge-1"))
	before := u.becomes("stays", "runs", running)
	u.becomes("goes", "runs", running)
	a.stop()
	u.delete("goes")
	run(t, c, "edge-1", root, rt, nil)
	u.until("pod goes is gone", func() bool { return u.get("goes") == nil })
	after := u.get("stays")
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("the container was replaced")
	}
	if !after.Status.StartTime.Equal(before.Status.StartTime) || condition(after, corev1.PodReady).LastTransitionTime != condition(before, corev1.PodReady).LastTransitionTime {
		t.Error("start time or the time of Ready changed")
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// get returns the status of the answer. The certificate is not what is tested.
func get(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
