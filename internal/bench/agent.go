package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/internal/realruntime"
)

// agent is the example agent as a child process, driven by its manifests alone.
type agent struct {
	process *realruntime.Process
	events  *events
	image   string // as the manifests name it
	dir     string
	log     *os.File
	made    int
}

func (a *agent) manifests() string { return filepath.Join(a.dir, "manifests") }
func (a *agent) pods() string      { return filepath.Join(a.dir, "root", "pods") }

// buildAgent builds the program.
func buildAgent(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "github.com/podsync/sdk/examples/edgeagent")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the agent: %w: %s", err, out)
	}
	return nil
}

// startAgent starts the program and waits until it answers.
func startAgent(ctx context.Context, o options, node *realruntime.Containerd, a *agent) error {
	for _, sub := range []string{"manifests", "next", "root", "logs"} {
		if err := os.MkdirAll(filepath.Join(a.dir, sub), 0o755); err != nil {
			return err
		}
	}
	var err error
	file := filepath.Join(a.dir, "agent.log")
	if o.log != "" {
		file = o.log
	}
	if a.log, err = os.Create(file); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	args := []string{"--runtime-endpoint", node.Endpoint(), "--manifests", a.manifests(), "--root-dir", filepath.Join(a.dir, "root"),
		"--logs-dir", filepath.Join(a.dir, "logs"), "--node-name", nodeName, "--node-ip", "127.0.0.1",
		"--cgroup-root", node.CgroupRoot(), "--listen", address}
	if o.log != "" {
		args = append(args, "-v", "2")
	}
	a.process, err = realruntime.StartProcess(realruntime.ProcessSpec{Path: o.agent, Args: args, Env: os.Environ(), Stdout: a.log, Stderr: a.log})
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return a.until(ctx, 20*time.Second, "the agent answers", func() (bool, error) {
		resp, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return false, nil
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func (a *agent) stop(ctx context.Context) {
	if a.process != nil {
		a.process.Stop(ctx, 10*time.Second)
	}
	if a.log != nil {
		a.log.Close()
	}
}

// until looks again and again, every few milliseconds, which costs as good as nothing.
func (a *agent) until(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-a.process.Done():
			return fmt.Errorf("wait until %s: the agent ended: %w", what, a.process.Err())
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// prepare writes manifests beside the directory that the agent follows.
func (a *agent) prepare(n int) ([]types.UID, error) {
	uids := make([]types.UID, 0, n)
	for range n {
		a.made++
		name := fmt.Sprintf("ours-%d", a.made)
		pod := manifest(name, a.image)
		pod.UID = types.UID(name)
		data, err := json.Marshal(pod)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(a.next(pod.UID), data, 0o644); err != nil {
			return nil, err
		}
		uids = append(uids, pod.UID)
	}
	return uids, nil
}

func (a *agent) next(uid types.UID) string { return filepath.Join(a.dir, "next", string(uid)+".json") }

func (a *agent) file(uid types.UID) string {
	return filepath.Join(a.manifests(), string(uid)+".json")
}

// start renames prepared manifests into place, and returns how long it took until the container of the last pod ran.
func (a *agent) start(ctx context.Context, uids []types.UID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	began := time.Now()
	for _, uid := range uids {
		if err := os.Rename(a.next(uid), a.file(uid)); err != nil {
			return 0, err
		}
	}
	last, err := a.events.wait(ctx, uids)
	if errors.Is(err, context.Canceled) {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("pods of the agent: %w; the end of its log:\n%s", err, tail(a.log.Name()))
	}
	return last.Sub(began), nil
}

// startLimit is how long pods may take before the measurement is given up.
const startLimit = 90 * time.Second

// remove removes the manifests of all pods, and returns how long it took until their directories were gone, which the
// agent removes after their sandboxes.
func (a *agent) remove(ctx context.Context, uids []types.UID) (time.Duration, error) {
	began := time.Now()
	for _, uid := range uids {
		if err := os.Remove(a.file(uid)); err != nil {
			return 0, err
		}
	}
	err := a.until(ctx, startLimit, "the agent's pods are gone", func() (bool, error) {
		left, err := os.ReadDir(a.pods())
		return len(left) == 0, err
	})
	took := time.Since(began)
	if errors.Is(err, context.Canceled) {
		return took, err
	}
	if err != nil {
		return took, fmt.Errorf("%w; the end of its log:\n%s", err, tail(a.log.Name()))
	}
	a.events.forget(uids)
	return took, nil
}

// tail returns the end of a file.
func tail(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3000):])
}

var errLeft = errors.New("sandboxes were left")
