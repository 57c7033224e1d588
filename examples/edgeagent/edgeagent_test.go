//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

// asProgram makes the test binary behave as the program.
const asProgram = "EDGEAGENT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// limit is how long a test waits for anything.
const limit = 20 * time.Second

// program is a running agent.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	root string
	done chan struct{} // closed when its log has ended

	mu  sync.Mutex
	log strings.Builder
}

// start runs the program on the demo manifests, as an ordinary user whoever runs
// the test. What it reads is copied to where such a user may read.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	dir, err := os.MkdirTemp("", "edgeagent-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &program{t: t, root: filepath.Join(dir, "root"), done: make(chan struct{})}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cred, exe := ordinaryUser(t, dir, exe)
	manifests := filepath.Join(dir, "manifests")
	if err := os.CopyFS(manifests, os.DirFS("../manifests")); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--runtime-endpoint", "memory", "--manifests", manifests, "--objects", filepath.Join(manifests, "objects"), "--root-dir", p.root, "--node-name", "edge-1", "--node-ip", "192.0.2.1", "--listen", "127.0.0.1:0"}, args...)
	p.cmd = exec.CommandContext(t.Context(), exe, args...)
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go p.read(out, address)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			<-p.done
			_ = p.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("the agent's log:\n%s", p)
		}
	})
	select {
	case a := <-address:
		p.url = "http://" + a
	case <-p.done:
		t.Fatalf("the agent ended:\n%s", p)
	case <-time.After(limit):
		t.Fatal("the agent does not listen")
	}
	return p
}

// ordinaryUser returns the credentials of nobody and a copy of the program that
// nobody can read, when the test runs as root; else the user stays as it is.
func ordinaryUser(t *testing.T, dir, exe string) (*syscall.Credential, string) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil, exe
	}
	const nobody = 65534
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	exe = filepath.Join(dir, "edgeagent")
	to, err := os.OpenFile(exe, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "root"), 0o750), os.Chown(filepath.Join(dir, "root"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}, exe
}

var listening = regexp.MustCompile(`msg="HTTP API" address=(\S+)`)

func (p *program) read(r io.Reader, address chan<- string) {
	defer close(p.done)
	for sc := bufio.NewScanner(r); sc.Scan(); {
		if m := listening.FindStringSubmatch(sc.Text()); m != nil {
			address <- m[1]
		}
		p.mu.Lock()
		fmt.Fprintln(&p.log, sc.Text())
		p.mu.Unlock()
	}
}

// String is the log so far.
func (p *program) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// pods asks for the pods until ok is true of them.
func pods(t *testing.T, url string, ok func([]corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		_, body := get(t, url+"/pods")
		var list corev1.PodList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if ok(list.Items) {
			return list.Items
		}
		if time.Now().After(end) {
			t.Fatalf("the pods are not as expected:\n%s", body)
		}
	}
}

// allReady tells whether there are n pods, all of them ready.
func allReady(n int) func([]corev1.Pod) bool {
	return func(pods []corev1.Pod) bool {
		return len(pods) == n && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
		})
	}
}

// The demo pod, with all that it needs, on the in-memory runtime and without root.
func TestDemoPod(t *testing.T) {
	p := start(t, "-v", "2")
	pod := pods(t, p.url, allReady(1))[0]
	if pod.Kind != "Pod" || pod.Name != "demo-edge-1" || pod.Spec.NodeName != "edge-1" || pod.Status.PodIP == "" || pod.Status.HostIP != "192.0.2.1" {
		t.Errorf("pod %s %s on %s, address %q on %q", pod.Kind, pod.Name, pod.Spec.NodeName, pod.Status.PodIP, pod.Status.HostIP)
	}
	for path, want := range map[string][]string{
		"/healthz":                           {"ok"},
		"/explain":                           {"default/demo-edge-1(" + string(pod.UID) + "): sync"},
		"/explain?uid=" + string(pod.UID):    {"STAGE", "status", "network", "volumes", "runtime"},
		"/metrics":                           {`podsync_pods{state="sync"} 1`, `podsync_stage_duration_seconds_count{kind="Continue",phase="sync",stage="runtime"}`, `podsync_run_duration_seconds_count`},
		"/explain?uid=no-such-uid#not-found": {"no pod of this UID"},
	} {
		wantCode := http.StatusOK
		if strings.HasSuffix(path, "#not-found") {
			wantCode = http.StatusNotFound
		}
		code, body := get(t, p.url+path)
		for _, w := range want {
			if code != wantCode || !strings.Contains(body, w) {
				t.Errorf("GET %s: %d, want %d and %q in\n%s", path, code, wantCode, w, body)
			}
		}
	}
	// Nobody can say who may: without an API server there are no logs and no commands.
	for _, path := range []string{"/containerLogs/default/demo-edge-1/web", "/exec/default/demo-edge-1/web?command=id&output=1", "/portForward/default/demo-edge-1"} {
		if code, body := get(t, p.url+path); code != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(p.root, "status", "*")); len(files) != 1 {
		t.Errorf("files of statuses: %q", files)
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	inOrder(t, p.String(), "stage=resources", "msg=\"pod admitted\"", "stage=status", "stage=network", "stage=cgroup", "stage=dirs", "stage=runtime", "containers are left as they are")
	if strings.Contains(p.String(), "not-a-real-secret") {
		t.Error("the log shows a secret")
	}
}

// inOrder checks that the log has the words one after another.
func inOrder(t *testing.T, log string, words ...string) {
	t.Helper()
	for _, w := range words {
		_, after, ok := strings.Cut(log, w)
		if !ok {
			t.Errorf("the log has no %q where it should be", w)
			return
		}
		log = after
	}
}

const web = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "busybox:1"}]}}`

// begin runs the agent in this process until the test ends.
func begin(t *testing.T, manifests string, more ...string) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	root := t.TempDir()
	f, err := parseFlags(append([]string{"--runtime-endpoint", "memory", "--manifests", manifests, "--root-dir", root, "--node-name", "edge-1", "--listen", address}, more...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx, f, slog.New(slog.DiscardHandler)) }()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the agent ended: %v", err)
		default:
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return "http://" + address, stop
}

func TestManifestsComeAndGo(t *testing.T) {
	manifests := t.TempDir()
	file := filepath.Join(manifests, "web.json")
	url, stop := begin(t, manifests)
	pods(t, url, allReady(0))
	write(t, file, web)
	first := pods(t, url, allReady(1))[0]
	write(t, file, "{not a manifest")
	write(t, filepath.Join(manifests, "other.json"), strings.ReplaceAll(web, `"web"`, `"other"`))
	two := pods(t, url, allReady(2))
	if two[1].UID != first.UID {
		t.Errorf("the pod of the broken file is %s, was %s", two[1].UID, first.UID)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if left := pods(t, url, allReady(1)); left[0].Name != "other-edge-1" {
		t.Errorf("left: %s", left[0].Name)
	}
	if err := stop(); err != nil {
		t.Errorf("after the end of its context: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A pod whose selector does not match the node's labels is refused, by the flag's labels.
func TestLabels(t *testing.T) {
	manifests := t.TempDir()
	write(t, filepath.Join(manifests, "web.json"), strings.Replace(web, `"spec": {`, `"spec": {"nodeSelector": {"zone": "a"}, `, 1))
	for _, tc := range []struct {
		labels string
		want   corev1.PodPhase
		reason string
	}{
		{"zone=a,rack=1", corev1.PodRunning, ""},
		{"zone=b", corev1.PodFailed, "NodeAffinity"},
	} {
		t.Run(tc.labels, func(t *testing.T) {
			url, stop := begin(t, manifests, "--labels", tc.labels)
			got := pods(t, url, func(p []corev1.Pod) bool { return len(p) == 1 && p[0].Status.Phase == tc.want })
			if got[0].Status.Reason != tc.reason {
				t.Errorf("reason %q, want %q", got[0].Status.Reason, tc.reason)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(dir, "file")
	write(t, file, "")
	ok := []string{"--manifests", dir, "--root-dir", filepath.Join(dir, "root"), "--runtime-endpoint", "memory"}
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"no manifests", []string{"--runtime-endpoint", "memory"}, []string{"--manifests is required"}},
		{"several at once", []string{"--cgroup-driver", "docker"}, []string{"--manifests is required", `--cgroup-driver is "docker"`, "auto, cgroupfs or systemd"}},
		{"unknown flag", append(ok, "--nonsense"), []string{"--nonsense"}},
		{"label without value", append(ok, "--labels", "zone"), []string{"zone", "key=value"}},
		{"address in use", append(ok, "--listen", taken.Addr().String()), []string{taken.Addr().String(), "in use"}},
		{"no runtime there", append(ok, "--runtime-endpoint", "unix://"+filepath.Join(dir, "none.sock")), []string{"connect to the container runtime", "none.sock"}},
		{"endpoint of no socket", append(ok, "--runtime-endpoint", "tcp://192.0.2.1:1"), []string{"tcp://192.0.2.1:1"}},
		{"root is a file", append(ok, "--root-dir", file), []string{file}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			f, err := parseFlags(tc.args)
			if err == nil {
				err = run(ctx, f, slog.New(slog.DiscardHandler))
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// What the program does when it is not run well: exit 1 and a line, or 0 and the help.
func TestExitCodes(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		arg  string
		code int
		want string
	}{
		{"--help", 0, "--runtime-endpoint"},
		{"--cgroup-root=none", 1, "edgeagent: --manifests is required"},
	} {
		t.Run(tc.arg, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), exe, tc.arg)
			cmd.Env = append(os.Environ(), asProgram+"=1")
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != tc.code || !strings.Contains(string(out), tc.want) {
				t.Errorf("exit %d, want %d, and %q in\n%s", cmd.ProcessState.ExitCode(), tc.code, tc.want, out)
			}
		})
	}
}
