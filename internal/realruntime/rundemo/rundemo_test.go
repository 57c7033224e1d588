package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/sdk/internal/realruntime"
)

// fakeEnv turns the test program into an agent: "ok", "failed" (its pod fails), "exit" (it ends at once) or
// "stuck" (its pod never goes).
const fakeEnv = "PODSYNC_FAKE_AGENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeEnv); mode != "" {
		if err := fakeAgent(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// fakeAgent answers as the example agent does: it has the pod as long as there is a manifest.
func fakeAgent(mode string) error {
	if mode == "exit" {
		return fmt.Errorf("the fake agent gives up")
	}
	fs := flag.NewFlagSet("agent", flag.ExitOnError)
	values := map[string]*string{}
	for _, name := range []string{"runtime-endpoint", "cgroup-root", "cgroup-driver", "manifests", "objects", "root-dir", "logs-dir", "node-name", "node-ip", "listen", "v"} {
		values[name] = fs.String(name, "", "")
	}
	if err := fs.Parse(os.Args[1:]); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "the fake agent runs on", *values["runtime-endpoint"])
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", func(w http.ResponseWriter, _ *http.Request) {
		files, _ := os.ReadDir(*values["manifests"])
		var list corev1.PodList
		if len(files) > 0 || mode == "stuck" {
			pod := demoPod()
			if mode == "failed" {
				pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no cpu"}
			}
			list.Items = append(list.Items, pod)
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("GET /explain", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "volumes continue 1ms") })
	return http.ListenAndServe(*values["listen"], mux)
}

// demoPod is a running pod with an init container, a sidecar and a container.
func demoPod() corev1.Pod {
	always, yes := corev1.ContainerRestartPolicyAlways, true
	start := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "u1"},
		Spec: corev1.PodSpec{
			NodeName:       "demo-node",
			InitContainers: []corev1.Container{{Name: "logger", RestartPolicy: &always}, {Name: "page"}},
			Containers:     []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "other", ContainerPort: 1}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.213.0.2", StartTime: &start,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start}},
			InitContainerStatuses: []corev1.ContainerStatus{
				{Name: "logger", State: running, Started: &yes, Ready: true, Image: "busybox:1", RestartCount: 2},
				{Name: "page", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}, Ready: true, Image: "busybox:1"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: running, Ready: true, Image: "web:1", RestartCount: 1}},
		},
	}
}

func TestPrintPods(t *testing.T) {
	var out bytes.Buffer
	pod := demoPod()
	if err := printPods(&out, []corev1.Pod{pod}, pod.Status.StartTime.Add(90*time.Second)); err != nil {
		t.Fatal(err)
	}
	want := `NAME   READY   STATUS    RESTARTS   AGE   IP           NODE
demo   2/2     Running   3          90s   10.213.0.2   demo-node

Conditions of demo:
TYPE    STATUS   REASON   SINCE
Ready   True     <none>   90s

Containers of demo:
NAME     KIND      STATE       READY   RESTARTS   IMAGE
logger   sidecar   Running     true    2          busybox:1
page     init      Completed   true    0          busybox:1
web      app       Running     true    1          web:1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"running", func(*corev1.Pod) {}, "Running"},
		{"no status yet", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, "Unknown"},
		{"rejected", func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"} }, "OutOfcpu"},
		{"being deleted", func(p *corev1.Pod) { p.DeletionTimestamp = p.Status.StartTime }, "Terminating"},
		{"second init container runs", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, "Init:1/2"},
		{"init container has not begun", func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State = waiting("PodInitializing") }, "Init:1/2"},
		{"init image cannot be pulled", func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].State = waiting("ImagePullBackOff") }, "Init:ImagePullBackOff"},
		{"container crashes", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff") }, "CrashLoopBackOff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := demoPod()
			tt.change(&pod)
			if got := summary(pod); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWebAddresses(t *testing.T) {
	if diff := cmp.Diff([]string{"http://10.213.0.2:8080/"}, webAddresses(demoPod())); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	pod := demoPod()
	pod.Status.PodIP = "fd00::2"
	if got := webAddresses(pod); len(got) != 1 || got[0] != "http://[fd00::2]:8080/" {
		t.Errorf("IPv6: %v", got)
	}
}

func TestCopyManifestsNamesTheRegistry(t *testing.T) {
	to := t.TempDir()
	n, err := copyManifests("../../../examples/manifests", to, "127.0.0.1:1234")
	if err != nil || n == 0 {
		t.Fatalf("%d files, %v", n, err)
	}
	b, err := os.ReadFile(filepath.Join(to, "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), manifestRegistry) || !strings.Contains(string(b), "image: 127.0.0.1:1234/private/web:1") {
		t.Error("the manifest names another registry")
	}
}

// fakeRun runs the program with a fake agent.
func fakeRun(t *testing.T, mode string, memory bool, limit time.Duration) (string, error) {
	t.Helper()
	t.Setenv(fakeEnv, mode)
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), options{
		manifests: "../../../examples/manifests", agent: os.Args[0], registry: "127.0.0.1:0", listen: "127.0.0.1:0",
		timeout: limit, once: true, memory: memory, shared: true,
	}, &out)
	left, globErr := filepath.Glob(filepath.Join(os.TempDir(), "podsync-*"))
	if globErr != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, globErr)
	}
	return out.String(), err
}

func TestRunOnMemory(t *testing.T) {
	tests := []struct {
		mode, output, fails string
		limit               time.Duration
	}{
		{mode: "ok", output: "volumes continue 1ms", limit: 20 * time.Second},
		{mode: "failed", output: "OutOfcpu", fails: "default/demo is Failed: OutOfcpu no cpu", limit: 20 * time.Second},
		{mode: "exit", output: "the fake agent gives up", fails: "the agent ended: exit status 1", limit: 20 * time.Second},
		{mode: "stuck", output: "Running", fails: "wait for the pods to go", limit: 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			out, err := fakeRun(t, tt.mode, true, tt.limit)
			if !strings.Contains(out, tt.output) {
				t.Errorf("no %q in:\n%s", tt.output, out)
			}
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("want %q, got %v", tt.fails, err)
			}
		})
	}
}

func TestCtrlCEndsInOrder(t *testing.T) {
	t.Setenv(fakeEnv, "ok")
	ctx, cancel := context.WithCancel(t.Context())
	out := &notifier{mark: "Ctrl-C stops the pods", seen: cancel}
	err := run(ctx, options{
		manifests: "../../../examples/manifests", agent: os.Args[0], listen: "127.0.0.1:0", timeout: 20 * time.Second, memory: true,
	}, out)
	if err != nil || !strings.Contains(out.String(), "Removing the manifests") {
		t.Errorf("%v, output:\n%s", err, out)
	}
}

// notifier calls seen when the mark is written.
type notifier struct {
	bytes.Buffer
	mark string
	seen func()
}

func (n *notifier) Write(p []byte) (int, error) {
	if strings.Contains(string(p), n.mark) {
		n.seen()
	}
	return n.Buffer.Write(p)
}

// TestRunOnContainerd starts the real parts around the fake agent: the pod has no address that answers, so it
// must fail clearly, and leave nothing.
func TestRunOnContainerd(t *testing.T) {
	if why := realruntime.Missing(); why != "" {
		t.Skip(why)
	}
	out, err := fakeRun(t, "failed", false, 20*time.Second)
	if err == nil || !strings.Contains(err.Error(), "OutOfcpu") || !strings.Contains(out, "ready after") {
		t.Errorf("%v, output:\n%s", err, out)
	}
}

// TestDemoManifest holds the demo pod to the API's types: no unknown field, and modes that are octal.
func TestDemoManifest(t *testing.T) {
	b, err := os.ReadFile("../../../examples/manifests/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(b, &pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Spec.InitContainers) != 2 || len(pod.Spec.Containers) != 1 || len(pod.Spec.ImagePullSecrets) != 1 {
		t.Errorf("the pod has %d init containers, %d containers, %d pull secrets", len(pod.Spec.InitContainers), len(pod.Spec.Containers), len(pod.Spec.ImagePullSecrets))
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
			t.Errorf("the mode of volume %s is %o", v.Name, *v.Secret.DefaultMode)
		}
	}
	objects, err := os.ReadFile("../../../examples/manifests/objects/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for doc := range strings.SplitSeq(string(objects), "\n---\n") {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Kind+" "+o.Name)
	}
	if diff := cmp.Diff([]string{"ConfigMap demo-page", "Secret demo-token", "Secret demo-registry"}, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(objects), password) || !strings.Contains(string(objects), manifestRegistry) {
		t.Error("the pull secret does not open the registry that rundemo serves")
	}
}
