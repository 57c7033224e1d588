package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/internal/realruntime"
)

const (
	nodeName = "e2e"
	// What the demo's manifests say about the registry.
	demoRegistry = "127.0.0.1:5055"
	demoPassword = "not-a-real-secret"
	// waitLimit is how long a test waits for anything; machines are slow when
	// many tests run.
	waitLimit = 60 * time.Second
)

// A rig is a private containerd, the directories of an agent, and the agent's
// process, which a test may kill and start again.
type rig struct {
	*realruntime.Containerd
	dir      string // has manifests, objects, root, logs
	root     string // the agent's root directory
	client   *remote.Remote
	endpoint string // what the agent talks to; Containerd's own by default
	args     []string
	proxy    *proxy // between agent and runtime, or nil

	mu    sync.Mutex
	agent *realruntime.Process
	url   string
	log   *buffer // of all agents of this rig
}

// newRig starts a containerd. The agent is given the further arguments.
func newRig(ctx context.Context, root string, args ...string) (_ *rig, err error) {
	c, err := realruntime.Start(ctx, realruntime.Config{SandboxImage: suite.registry.Image("pause:3.10")})
	if err != nil {
		return nil, err
	}
	r := &rig{Containerd: c, dir: filepath.Join(c.Root(), "agent"), root: root, endpoint: c.Endpoint(), args: args, log: &buffer{}}
	if r.root == "" {
		r.root = filepath.Join(r.dir, "root")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
	}()
	for _, d := range []string{r.manifests(), r.objects(), r.root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	r.client, err = remote.Dial(ctx, remote.Options{Endpoint: c.Endpoint(), Timeout: 30 * time.Second})
	return r, err
}

func (r *rig) manifests() string               { return filepath.Join(r.dir, "manifests") }
func (r *rig) objects() string                 { return filepath.Join(r.dir, "objects") }
func (r *rig) logs() string                    { return filepath.Join(r.dir, "logs") }
func (r *rig) cri() internalapi.RuntimeService { return r.client.Runtime() }
func (r *rig) logTail(lines int) string        { return tail(r.log.String(), lines) }
func (r *rig) image(name string) string        { return suite.registry.Image(name) }
func (r *rig) podDir(p corev1.Pod) string      { return filepath.Join(r.root, "pods", string(p.UID)) }
func (r *rig) substitute(manifest string) string {
	return strings.NewReplacer(demoRegistry, suite.registry.Address, "$REGISTRY", suite.registry.Address, "$DIR", r.dir).Replace(manifest)
}

var apiAddress = regexp.MustCompile(`msg="HTTP API" address=(\S+)`)

// start starts the agent and waits until its HTTP API listens.
func (r *rig) start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.log.String())
	p, err := realruntime.StartProcess(realruntime.ProcessSpec{
		Path: suite.agent,
		Args: append([]string{
			"--runtime-endpoint", r.endpoint, "--cgroup-root", r.CgroupRoot(),
			"--manifests", r.manifests(), "--objects", r.objects(), "--root-dir", r.root, "--logs-dir", r.logs(),
			"--node-name", nodeName, "--node-ip", "127.0.0.1", "--listen", "127.0.0.1:0", "-v", "2",
		}, r.args...),
		Env: os.Environ(), Stdout: r.log, Stderr: r.log,
	})
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	r.agent = p
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		if m := apiAddress.FindStringSubmatch(r.log.String()[before:]); m != nil {
			r.url = "http://" + m[1]
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("the agent ended: %w\n%s", p.Err(), r.log.String()[before:])
		case <-ctx.Done():
			return fmt.Errorf("wait for the agent: %w\n%s", ctx.Err(), r.log.String()[before:])
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill ends the agent with SIGKILL.
func (r *rig) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent != nil {
		r.agent.Kill()
		r.agent = nil
	}
}

// stop ends the agent with SIGTERM; it has to end well.
func (r *rig) stop(t *testing.T) {
	t.Helper()
	if err := r.stopAgent(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func (r *rig) stopAgent(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil
	}
	p := r.agent
	r.agent = nil
	select {
	case <-p.Done():
		return fmt.Errorf("the agent had ended by itself: %w", p.Err())
	default:
	}
	p.Stop(ctx, 30*time.Second)
	if err := p.Err(); err.Error() != "exit status 0" {
		return fmt.Errorf("the agent did not end well: %w", err)
	}
	return nil
}

// begin starts the agent again.
func (r *rig) begin(t *testing.T) {
	t.Helper()
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// close takes everything down and tells what the agent left although it had
// time to clean up.
func (r *rig) close(ctx context.Context) (left []string) {
	left = r.clear(ctx)
	if err := r.stopAgent(ctx); err != nil {
		left = append(left, err.Error())
	}
	for l := range strings.Lines(r.log.String()) {
		if strings.Contains(l, "DATA RACE") || strings.Contains(l, "panic") {
			left = append(left, "in the agent's log: "+strings.TrimSpace(l))
		}
	}
	if r.proxy != nil {
		if err := r.proxy.close(); err != nil {
			left = append(left, err.Error())
		}
	}
	if err := r.client.Close(ctx); err != nil {
		left = append(left, err.Error())
	}
	if err := r.Stop(ctx); err != nil {
		left = append(left, err.Error())
	}
	leaks, err := r.Leaks(r.root)
	if err != nil {
		left = append(left, err.Error())
	}
	return append(left, leaks...)
}

// clear removes all manifests and waits until nothing is left of any pod. With
// no agent running it starts none.
func (r *rig) clear(ctx context.Context) []string {
	r.mu.Lock()
	running := r.agent != nil
	r.mu.Unlock()
	if !running {
		return nil
	}
	if r.proxy != nil {
		r.proxy.on(nil)
	}
	if err := os.RemoveAll(r.manifests()); err != nil {
		return []string{err.Error()}
	}
	end := time.Now().Add(waitLimit)
	for {
		left, err := r.leftovers(ctx, "")
		if err != nil {
			return []string{err.Error()}
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// apply renames a manifest into place.
func (r *rig) apply(t *testing.T, name, manifest string) {
	t.Helper()
	r.write(t, filepath.Join(r.manifests(), name+".yaml"), manifest)
}

// object does the same with a ConfigMap or Secret.
func (r *rig) object(t *testing.T, name, manifest string) {
	t.Helper()
	r.write(t, filepath.Join(r.objects(), name+".yaml"), manifest)
}

func (r *rig) write(t *testing.T, path, content string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := os.WriteFile(tmp, []byte(r.substitute(content)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

// remove removes manifests.
func (r *rig) remove(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := os.Remove(filepath.Join(r.manifests(), n+".yaml")); err != nil {
			t.Error(err)
		}
	}
}

// pods asks the agent for its pods.
func (r *rig) pods(ctx context.Context) ([]corev1.Pod, error) {
	body, err := r.get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, fmt.Errorf("read the agent's pods: %w", err)
	}
	return list.Items, nil
}

func (r *rig) get(ctx context.Context, path string) (string, error) {
	r.mu.Lock()
	url := r.url + path
	r.mu.Unlock()
	return get(ctx, url)
}

// get fetches a page.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, resp.Status, bytes.TrimSpace(b))
	}
	return string(b), err
}

// exec runs a command in a container, by the runtime's own API.
func (r *rig) exec(t *testing.T, p corev1.Pod, container string, cmd ...string) string {
	t.Helper()
	id := containerID(p, container)
	if id == "" {
		t.Fatalf("pod %s has no container %s with an id: %+v", p.Name, container, p.Status)
	}
	stdout, stderr, err := r.cri().ExecSync(t.Context(), id, cmd, 20*time.Second)
	if err != nil {
		t.Fatalf("run %q in %s/%s: %v: %s", cmd, p.Name, container, err, stderr)
	}
	return string(stdout)
}

// sh is exec of a shell script, its output without the last newline.
func (r *rig) sh(t *testing.T, p corev1.Pod, container, script string) string {
	t.Helper()
	return strings.TrimRight(r.exec(t, p, container, "sh", "-c", script), "\n")
}

// logOf returns what a container wrote in its n-th run, each line "stream text",
// and fails the test if the file is not in the format of the CRI.
func (r *rig) logOf(t *testing.T, p corev1.Pod, container string, n int) []string {
	t.Helper()
	path := filepath.Join(r.logs(), p.Namespace+"_"+p.Name+"_"+string(p.UID), container, fmt.Sprintf("%d.log", n))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for l := range strings.Lines(string(b)) {
		m := criLog.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if m == nil {
			t.Errorf("%s: line %q is not in the CRI's format", path, l)
			continue
		}
		lines = append(lines, m[2]+" "+m[4])
	}
	return lines
}

var criLog = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP]) (.*)$`)

// listed returns the pod's containers in the runtime, in any state.
func (r *rig) listed(t *testing.T, p corev1.Pod) []*runtimeapi.Container {
	t.Helper()
	cs, err := r.cri().ListContainers(t.Context(), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}})
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// buffer collects what processes write.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
