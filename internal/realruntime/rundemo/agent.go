package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/internal/realruntime"
)

// agent is the running example agent.
type agent struct {
	process *realruntime.Process
	address string // of its HTTP API
}

// startAgent starts the agent on the run's manifests, its log shown with a mark before each line.
func startAgent(d *demo, args []string) (*agent, error) {
	address := freeAddress(d.listen)
	args = append(args,
		"--manifests", filepath.Join(d.dir, "manifests"), "--objects", filepath.Join(d.dir, "objects"),
		"--root-dir", filepath.Join(d.dir, "root"), "--logs-dir", filepath.Join(d.dir, "logs"),
		"--node-name", "demo-node", "--node-ip", "127.0.0.1", "--listen", address, "-v", strconv.Itoa(d.verbosity))
	fmt.Fprintf(d.out, "%s %s\n", d.options.agent, strings.Join(args, " "))
	log := &agentLog{out: d.out}
	p, err := realruntime.StartProcess(realruntime.ProcessSpec{Path: d.options.agent, Args: args, Env: os.Environ(), Stdout: log, Stderr: log})
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	return &agent{process: p, address: address}, nil
}

// errFailed: a pod ended instead of running.
var errFailed = errors.New("a pod did not come up")

// waitRunning waits until all pods are ready. With an error it returns the pods as they were last seen.
func (a *agent) waitRunning(ctx context.Context, limit time.Duration) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	err := a.poll(ctx, limit, func(now []corev1.Pod) (bool, error) {
		pods = now
		for _, p := range now {
			if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
				return false, fmt.Errorf("%w: %s/%s is %s: %s %s", errFailed, p.Namespace, p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			if !ready(p) {
				return false, nil
			}
		}
		return len(now) > 0, nil
	})
	if err != nil {
		return pods, fmt.Errorf("wait for the pods to run: %w", err)
	}
	return pods, nil
}

// waitGone waits until the agent has no pod.
func (a *agent) waitGone(ctx context.Context, limit time.Duration) error {
	begin := time.Now()
	err := a.poll(ctx, limit, func(now []corev1.Pod) (bool, error) { return len(now) == 0, nil })
	if err != nil {
		return fmt.Errorf("wait for the pods to go: %w after %s", err, time.Since(begin).Round(time.Second))
	}
	return nil
}

// poll asks for the pods until done says so, an error comes up, the agent ends, or time is over.
func (a *agent) poll(ctx context.Context, limit time.Duration, done func([]corev1.Pod) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		pods, err := a.pods(ctx)
		if err == nil {
			if ok, err := done(pods); ok || err != nil {
				return err
			}
		}
		select {
		case <-a.process.Done():
			return fmt.Errorf("the agent ended: %w", a.process.Err())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pods asks the agent for its pods.
func (a *agent) pods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body, err := fetchOnce(ctx, "http://"+a.address+"/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, fmt.Errorf("read the agent's pods: %w", err)
	}
	return list.Items, nil
}

// explain asks the agent why a pod is where it is.
func (a *agent) explain(ctx context.Context, uid string) (string, error) {
	return fetch(ctx, "http://"+a.address+"/explain?uid="+uid, 5*time.Second)
}

// ended tells whether the agent's process has.
func (a *agent) ended() bool {
	select {
	case <-a.process.Done():
		return true
	default:
		return false
	}
}

// ready tells whether the pod's condition Ready is true.
func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// webAddresses are the URLs of the pod's ports named http.
func webAddresses(p corev1.Pod) []string {
	var urls []string
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "http" && p.Status.PodIP != "" {
				urls = append(urls, "http://"+net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))+"/")
			}
		}
	}
	return urls
}

// fetch gets a page of at most 1 MiB. A server that does not listen yet is asked again until the limit.
func fetch(ctx context.Context, url string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		body, err := fetchOnce(ctx, url)
		var refused *net.OpError
		if err == nil || !errors.As(err, &refused) {
			return body, err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func fetchOnce(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("GET %s: %s: %s", url, resp.Status, bytes.TrimSpace(b))
	}
	return string(b), nil
}

// locked is a writer for several goroutines.
type locked struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}
