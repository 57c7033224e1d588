package cptest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/internal/controlplane"
	"github.com/podsync/sdk/internal/realruntime"
	"github.com/podsync/sdk/internal/realruntime/runtimetest"
)

// kubectl runs the real one.
type kubectl struct {
	t            *testing.T
	path, config string
}

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, append([]string{"--kubeconfig", k.config, "--cache-dir", k.t.TempDir()}, args...)...)
	cmd.WaitDelay = time.Second
	return cmd
}

// run returns what it wrote; ok is false when it failed.
func (k kubectl) run(stdin string, args ...string) (out string, ok bool) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 60*time.Second)
	defer cancel()
	cmd := k.command(ctx, args...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	b, err := cmd.CombinedOutput()
	return string(b), err == nil
}

func (k kubectl) must(stdin string, args ...string) string {
	k.t.Helper()
	out, ok := k.run(stdin, args...)
	if !ok {
		k.t.Fatalf("kubectl %s: %s", strings.Join(args, " "), out)
	}
	return out
}

// clusterNode is the agent's program as a node of a cluster, on a real containerd.
type clusterNode struct {
	kubectl
	*realruntime.Registry
	log bytes.Buffer
}

// startNode starts a control plane, a containerd, and the agent.
func startNode(t *testing.T, name string, args ...string) *clusterNode {
	t.Helper()
	rt := runtimetest.Start(t, realruntime.Config{})
	bin := programs(t)
	dir := t.TempDir()
	c, err := controlplane.Start(t.Context(), controlplane.Config{Bin: bin, Dir: dir, Nodes: []string{name}, Controllers: true, Scheduler: true, KubeletNames: []string{name}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	n := &clusterNode{Registry: rt.Registry}
	admin, err := c.AdminKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	n.kubectl = kubectl{t, filepath.Join(bin, "kubectl"), admin}
	config, err := c.Kubeconfig(name, controlplane.Token(name))
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(dir, "edgeagent")
	if out, err := exec.Command("go", "build", "-o", agent, "github.com/podsync/sdk/examples/edgeagent").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := realruntime.StartProcess(realruntime.ProcessSpec{Path: agent, Args: append([]string{
		"--runtime-endpoint", rt.Endpoint(), "--cgroup-root", rt.CgroupRoot(), "--root-dir", filepath.Join(dir, "root"),
		"--node-name", name, "--kubeconfig", config, "--listen", addr, "--client-ca-file", c.CA,
		"--tls-cert-file", c.PKI().File("kubelet-" + name + ".crt"), "--tls-private-key-file", c.PKI().File("kubelet-" + name + ".key"), "-v", "2",
	}, args...), Env: os.Environ(), Stdout: &n.log, Stderr: &n.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.run("", "delete", "pods", "--all", "--wait=true", "--timeout=30s", "--grace-period=1")
		p.Stop(context.WithoutCancel(t.Context()), 20*time.Second)
		if t.Failed() {
			t.Logf("the agent's log:\n%s", n.log.String()[max(0, n.log.Len()-6000):])
		}
	})
	u := user{t, client(t, c, c.AdminToken())}
	u.until("the node is Ready", func() bool {
		out, _ := n.run("", "get", "node", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		return out == "True"
	})
	u.until("there is a default service account", func() bool {
		_, ok := n.run("", "get", "serviceaccount", "default")
		return ok
	})
	return n
}

// shell is a pod that says hello and then a line each second, and takes commands.
func (n *clusterNode) shell(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"terminationGracePeriodSeconds":1,"containers":[{
"name":"main","image":"` + n.Image("busybox:1") + `",
"command":["sh","-c","trap 'exit 0' TERM; echo hello; echo oops >&2; mkdir -p /www; echo page > /www/index.html; httpd -p 8080 -h /www; while true; do echo tick; sleep 1; done"]}]}}`
}

func TestKubectl(t *testing.T) {
	n := startNode(t, "edge-real")
	n.must(n.shell("web"), "apply", "-f", "-")
	n.must("", "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")

	t.Run("get", func(t *testing.T) {
		out := kubectl{t, n.path, n.config}.must("", "get", "nodes,pods", "-o", "wide")
		for _, want := range []string{"Ready", "web", "1/1", "Running", "containerd://"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	})
	t.Run("describe", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		user{t: t}.until("the events are told", func() bool {
			out := k.must("", "describe", "pod", "web")
			return strings.Contains(out, "Started") && strings.Contains(out, "Pulled") && strings.Contains(out, "kubelet")
		})
	})
	t.Run("logs", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		if out := k.must("", "logs", "web"); !strings.HasPrefix(out, "hello\noops\n") && !strings.HasPrefix(out, "oops\nhello\n") {
			t.Errorf("logs: %q", out)
		}
		if out := k.must("", "logs", "web", "--tail=1"); out != "tick\n" {
			t.Errorf("--tail=1: %q", out)
		}
		if out := k.must("", "logs", "web", "--limit-bytes=3"); len(out) != 3 {
			t.Errorf("--limit-bytes=3: %q", out)
		}
		if out := k.must("", "logs", "web", "--timestamps", "--tail=1"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+Z tick\n$`).MatchString(out) {
			t.Errorf("--timestamps: %q", out)
		}
		if out, ok := k.run("", "logs", "web", "--previous"); ok || !strings.Contains(out, "previous terminated container") {
			t.Errorf("--previous: %q", out)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		out, _ := k.command(ctx, "logs", "web", "-f", "--tail=0").Output()
		if ticks := strings.Count(string(out), "tick"); ticks < 2 {
			t.Errorf("-f for 4 s gave %d lines: %q", ticks, out)
		}
	})
	t.Run("exec", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		if out := k.must("", "exec", "web", "--", "echo", "from inside"); out != "from inside\n" {
			t.Errorf("exec: %q", out)
		}
		if out := k.must("typed", "exec", "-i", "web", "--", "cat"); out != "typed" {
			t.Errorf("exec -i: %q", out)
		}
		if out, ok := k.run("", "exec", "web", "--", "sh", "-c", "exit 7"); ok || !strings.Contains(out, "exit code 7") {
			t.Errorf("exit code: %q", out)
		}
	})
	t.Run("cp", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "in"), []byte("copied"), 0o600); err != nil {
			t.Fatal(err)
		}
		k.must("", "cp", filepath.Join(dir, "in"), "web:/tmp/in")
		k.must("", "cp", "web:/tmp/in", filepath.Join(dir, "out"))
		if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "copied" {
			t.Errorf("cp there and back: %q, %v", b, err)
		}
	})
	t.Run("port-forward", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		ctx, cancel := context.WithCancel(t.Context())
		cmd := k.command(ctx, "port-forward", "--address=127.0.0.1", "pod/web", ":8080")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		buf := make([]byte, 256)
		m, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		at := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(buf[:m]))
		resp, err := http.Get("http://" + at + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "page\n" {
			t.Errorf("through the forwarded port: %q, %v", b, err)
		}
	})
	t.Run("attach", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		out, _ := k.command(ctx, "attach", "web").Output()
		if !strings.Contains(string(out), "tick") {
			t.Errorf("attach: %q", out)
		}
	})
	t.Run("debug", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		k.must("", "debug", "web", "--image="+n.Image("busybox:1"), "--container=dbg", "--attach=false", "--", "sh", "-c", "echo debugging; sleep 1000")
		u := user{t: t}
		u.until("the debugging container speaks", func() bool {
			out, _ := k.run("", "logs", "web", "-c", "dbg")
			return out == "debugging\n"
		})
	})
	t.Run("delete", func(t *testing.T) {
		k := kubectl{t, n.path, n.config}
		start := time.Now()
		k.must("", "delete", "pod", "web", "--wait=true", "--timeout=30s")
		t.Logf("deleted in %s", time.Since(start))
	})
}

// The node's API lets in whom the API server allows it, and nobody else.
func TestNodeAPIIsGuarded(t *testing.T) {
	n := startNode(t, "edge-guard")
	var node corev1.Node
	if err := json.Unmarshal([]byte(n.must("", "get", "node", "edge-guard", "-o", "json")), &node); err != nil {
		t.Fatal(err)
	}
	url := "https://127.0.0.1:" + itoa(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	n.must("", "create", "serviceaccount", "nobody")
	n.must("", "create", "serviceaccount", "watcher")
	n.must("", "create", "clusterrole", "stats", "--verb=get", "--resource=nodes/metrics")
	n.must("", "create", "clusterrolebinding", "stats", "--clusterrole=stats", "--serviceaccount=default:watcher")
	for _, tc := range []struct {
		name, token, path string
		want              int
	}{
		{"no token", "", "/pods", http.StatusUnauthorized},
		{"a wrong token", "wrong", "/pods", http.StatusUnauthorized},
		{"health is for everybody", "", "/healthz", http.StatusOK},
		{"an account without rights", strings.TrimSpace(n.must("", "create", "token", "nobody")), "/pods", http.StatusForbidden},
		{"an administrator", "admin-token", "/pods", http.StatusOK},
		{"what its role allows", strings.TrimSpace(n.must("", "create", "token", "watcher")), "/metrics", http.StatusOK},
		{"what its role does not", strings.TrimSpace(n.must("", "create", "token", "watcher")), "/pods", http.StatusForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := get(t, url+tc.path, tc.token); got != tc.want {
				t.Errorf("%s answers %d, want %d", tc.path, got, tc.want)
			}
		})
	}
}
