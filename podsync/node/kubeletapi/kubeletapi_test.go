package kubeletapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync/node/kubeletapi"
)

// pods is a fixed list.
type pods []*corev1.Pod

func (p pods) List() []*corev1.Pod { return p }

// echo is a log that says what was asked of it.
type echo struct{}

func (echo) ReadLogs(_ context.Context, t kubeletapi.LogTarget, o *corev1.PodLogOptions, stdout, stderr io.Writer) error {
	if t.ID == "lost" {
		return fmt.Errorf("%w: it was removed", kubeletapi.ErrNoLog)
	}
	fmt.Fprintf(stdout, "%s #%d", t.ID, t.RestartCount)
	fmt.Fprint(stderr, "!")
	if o.TailLines != nil {
		fmt.Fprintf(stdout, " tail=%d", *o.TailLines)
	}
	if o.SinceSeconds != nil {
		fmt.Fprintf(stdout, " since=%d", *o.SinceSeconds)
	}
	if o.Timestamps {
		fmt.Fprint(stdout, " timestamps")
	}
	return nil
}

func web() *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "default", "web", "u1"
	ended := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "cri://" + id}}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "runs", ContainerID: "cri://r2", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: ended("r1")},
		{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, RestartCount: 3, LastTerminationState: ended("w3")},
		{Name: "new", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
		{Name: "ended", State: ended("e0")},
		{Name: "lost", ContainerID: "cri://lost", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	return p
}

// everybody may do everything: for tests only.
type everybody struct{}

func (everybody) Authenticate(*http.Request) (*kubeletapi.Identity, bool, error) {
	return &kubeletapi.Identity{Name: "test"}, true, nil
}

func (everybody) Authorize(context.Context, *kubeletapi.Identity, kubeletapi.Attributes) (bool, string, error) {
	return true, "", nil
}

func Example() {
	h, err := kubeletapi.New(kubeletapi.Config{
		Pods: pods{web()}, Logs: echo{},
		Authenticator: everybody{}, Authorizer: everybody{}, // cluster.Reviewer in a program
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(h) // h.Serve(ctx, listener) in a program
	defer server.Close()
	resp, err := http.Get(server.URL + "/containerLogs/default/web/runs?tailLines=10")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	fmt.Println(string(b), err)
	// Output: r2 #2! tail=10 <nil>
}

func TestLogs(t *testing.T) {
	h, err := kubeletapi.New(kubeletapi.Config{Pods: pods{web()}, Logs: echo{}, Authenticator: everybody{}, Authorizer: everybody{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		code       int
		body       string
	}{
		{"running", "default/web/runs", 200, "r2 #2!"},
		{"previous", "default/web/runs?previous=true", 200, "r1 #1!"},
		{"waiting for its restart", "default/web/waits", 200, "w3 #3!"},
		{"ended", "default/web/ended", 200, "e0 #0!"},
		{"never started", "default/web/new", 400, `container "new" in pod "web" is waiting to start: ImagePullBackOff`},
		{"no previous", "default/web/ended?previous=1", 400, "previous terminated container"},
		{"no such container", "default/web/none", 400, "not available"},
		{"no such pod", "default/none/runs", 404, "not found"},
		{"other namespace", "kube-system/web/runs", 404, "not found"},
		{"lost", "default/web/lost", 500, "no log: it was removed"},
		{"options", "default/web/runs?tailLines=0&sinceSeconds=5&timestamps=true", 200, "r2 #2! tail=0 since=5 timestamps"},
		{"all lines", "default/web/runs?tailLines=all", 200, "r2 #2!"},
		{"limit", "default/web/runs?limitBytes=4", 200, "r2 #"},
		{"stdout", "default/web/runs?stream=Stdout", 200, "r2 #2"},
		{"stderr", "default/web/runs?stream=Stderr", 200, "!"},
		{"bad stream", "default/web/runs?stream=x", 422, "stream"},
		{"bad number", "default/web/runs?tailLines=-1", 422, "tailLines"},
		{"bad time", "default/web/runs?sinceTime=yesterday", 422, "sinceTime"},
		{"both times", "default/web/runs?sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1", 422, "at most one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/containerLogs/"+tc.path, nil))
			if w.Code != tc.code || tc.code == 200 && w.Body.String() != tc.body || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}

// guard knows one user, who may read metrics only.
type guard struct{ err error }

func (guard) Authenticate(r *http.Request) (*kubeletapi.Identity, bool, error) {
	u := r.Header.Get("User")
	return &kubeletapi.Identity{Name: u}, u != "", nil
}

func (g guard) Authorize(_ context.Context, id *kubeletapi.Identity, a kubeletapi.Attributes) (bool, string, error) {
	return id.Name == "monitor" && a.Verb == "get" && a.Subresources[0] == "metrics", "no role", g.err
}

func TestGuard(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m") })
	for _, tc := range []struct {
		name, user, path string
		err              error
		code             int
	}{
		{"nobody", "", "/pods", nil, 401},
		{"not allowed", "monitor", "/pods", nil, 403},
		{"allowed", "monitor", "/metrics", nil, 200},
		{"health needs nobody", "", "/healthz", nil, 200},
		{"cannot be found out", "monitor", "/metrics", errors.New("away"), 500},
		{"a path of the program's own", "monitor", "/explain", nil, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := guard{tc.err}
			h, err := kubeletapi.New(kubeletapi.Config{
				Pods: pods{web()}, Metrics: metrics, Authenticator: g, Authorizer: g, More: map[string]http.Handler{"GET /explain": metrics},
			})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, tc.path, nil)
			r.Header.Set("User", tc.user)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.code {
				t.Errorf("%d %q, want %d", w.Code, w.Body, tc.code)
			}
		})
	}
	if _, err := kubeletapi.New(kubeletapi.Config{Pods: pods{}, Authenticator: guard{}}); err == nil {
		t.Error("an authenticator without an authorizer lets in whom it should not")
	}
	if _, err := kubeletapi.New(kubeletapi.Config{Pods: pods{}, Logs: echo{}}); err == nil {
		t.Error("logs are for everybody who reaches the address")
	}
	if _, err := kubeletapi.New(kubeletapi.Config{Pods: pods{}, Runtime: logAt("")}); err == nil {
		t.Error("commands are for everybody who reaches the address")
	}
}

// logAt is a runtime whose containers have ended and have that log.
func logAt(path string) internalapi.RuntimeService { return oneLog{path: path} }

type oneLog struct {
	internalapi.RuntimeService
	path string
}

func (l oneLog) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, LogPath: l.path}}, nil
}

// No file but a log is shown, whatever a pod has put into the directory of logs.
func TestCRILogsStayInside(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "logs")
	line := []byte("2026-01-01T00:00:00.000000000Z stdout F hello\n")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "pod"), 0o755))
	must(os.WriteFile(filepath.Join(root, "pod", "0.log"), line, 0o600))
	must(os.WriteFile(filepath.Join(dir, "secret"), line, 0o600))
	must(os.Symlink(filepath.Join(dir, "secret"), filepath.Join(root, "pod", "1.log")))
	must(os.Symlink(dir, filepath.Join(root, "out")))
	must(os.Symlink("0.log", filepath.Join(root, "pod", "2.log")))
	must(os.Symlink(root, filepath.Join(dir, "linked")))
	for _, tc := range []struct {
		name, root, path string
		shown            bool
	}{
		{"a log", root, filepath.Join(root, "pod", "0.log"), true},
		{"a link within", root, filepath.Join(root, "pod", "2.log"), true},
		{"the root is a link", filepath.Join(dir, "linked"), filepath.Join(root, "pod", "0.log"), true},
		{"a link out", root, filepath.Join(root, "pod", "1.log"), false},
		{"a linked directory", root, filepath.Join(root, "out", "secret"), false},
		{"a path out", root, filepath.Join(root, "..", "secret"), false},
		{"elsewhere", root, filepath.Join(dir, "secret"), false},
		{"a directory", root, filepath.Join(root, "pod"), false},
		{"nothing", root, filepath.Join(root, "pod", "9.log"), false},
		{"no root", "", filepath.Join(root, "pod", "0.log"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			err := kubeletapi.CRILogs{Root: tc.root, Runtime: logAt(tc.path)}.ReadLogs(t.Context(), kubeletapi.LogTarget{Pod: web(), Container: "runs", ID: "r2"}, &corev1.PodLogOptions{}, &out, &out)
			if shown := err == nil && out.String() == "hello\n"; shown != tc.shown || !tc.shown && (!errors.Is(err, kubeletapi.ErrNoLog) || out.Len() > 0) {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}
