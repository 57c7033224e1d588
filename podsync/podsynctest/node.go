package podsynctest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/status"
)

// DefaultWaitLimit is how long a Node waits for anything before it fails the test.
const DefaultWaitLimit = 30 * time.Second

// Node is a whole node agent on an in-memory runtime, for tests. Its runtime,
// directories and manifests outlive the agent, so that a test can restart the
// agent or cut its power. The agent is stopped when the test ends. It works in
// a testing/synctest bubble. For one goroutine, unless noted.
type Node struct {
	// Runtime is the runtime: scripts, faults, calls.
	Runtime *memory.Runtime
	// Root is the agent's root directory.
	Root string
	// Events are the events so far.
	Events *Events
	// Recorder has what stages ran.
	Recorder *Recorder

	t       testing.TB
	opts    NodeOptions
	pods    map[types.UID]*corev1.Pod
	src     *manifests
	current *node.Node
	stop    func()
	log     *logBuffer
}

// NodeOptions say what a Node is to differ in. The zero value is a node with no
// faults that takes every pod.
type NodeOptions struct {
	// Runtime is the runtime; nil makes one of Memory.
	Runtime *memory.Runtime
	// Memory are the options of the runtime that is made.
	Memory memory.Options
	// Change may change the configuration of each agent before it is put together.
	Change func(c *node.Config)
	// Plan may change the pipelines of each agent before they are built.
	Plan func(p *podsync.Plan)
	// WaitLimit is how long the node waits for anything before it fails the test;
	// 0 is DefaultWaitLimit. In a testing/synctest bubble a long one costs no time.
	WaitLimit time.Duration
	// Verbose logs each stage into the test's log when the test fails.
	Verbose bool
}

// NewNode starts a node.
func NewNode(t testing.TB, o NodeOptions) *Node {
	t.Helper()
	if o.WaitLimit <= 0 {
		o.WaitLimit = DefaultWaitLimit
	}
	rt := o.Runtime
	if rt == nil {
		rt = memory.New(o.Memory)
		t.Cleanup(func() { rt.Shutdown() })
	}
	n := &Node{
		Runtime: rt, Root: t.TempDir(), Events: &Events{}, Recorder: &Recorder{},
		t: t, opts: o, pods: map[types.UID]*corev1.Pod{}, src: &manifests{}, log: &logBuffer{},
	}
	t.Cleanup(func() {
		n.Stop()
		if t.Failed() {
			t.Logf("agent's log:\n%s", n.log)
		}
	})
	n.Start()
	return n
}

// Start starts an agent on what is there. It does nothing while one runs.
func (n *Node) Start() {
	n.t.Helper()
	if n.stop != nil {
		return
	}
	level := slog.LevelInfo
	if n.opts.Verbose {
		level = slog.LevelDebug
	}
	c := node.Config{
		Runtime: n.Runtime, Images: n.Runtime, Root: n.Root, Unprivileged: os.Getuid() != 0,
		Sources:     []podsync.Source{n.src},
		StatusSinks: []status.Sink{&status.FileSink{Dir: filepath.Join(n.Root, "status")}},
		Agent:       podsync.Config{Events: n.Events},
		Logger:      slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: level})),
	}
	if n.opts.Change != nil {
		n.opts.Change(&c)
	}
	nd, err := node.New(c)
	if err != nil {
		n.t.Fatalf("put the node together: %v", err)
	}
	nd.Plan.Observe(n.Recorder.Observe)
	if n.opts.Verbose {
		nd.Plan.Observe(podsync.LogStages(nil))
	}
	if n.opts.Plan != nil {
		n.opts.Plan(nd.Plan)
	}
	if _, err := nd.Build(); err != nil {
		n.t.Fatalf("build the node: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.t.Context()))
	done := make(chan error, 1)
	go func() { done <- nd.Run(ctx) }()
	n.current = nd
	n.stop = func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("the agent ended with an error: %v", err)
		}
	}
}

// Stop stops the agent; what runs in the runtime goes on.
func (n *Node) Stop() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// Restart stops the agent and starts another one on what is there.
func (n *Node) Restart() {
	n.t.Helper()
	n.Stop()
	n.Start()
}

// PowerCut lets the agent die at its at-th call, from now on and from 1, that
// changes something in the runtime: before the call is done or right after. No
// later call of that agent has any effect. It returns once that has happened
// and a new agent runs; happened is false if the pods settled before that.
func (n *Node) PowerCut(at int, m memory.Moment, settled func() bool) (happened bool) {
	n.t.Helper()
	cut := n.Runtime.PowerCut(at, m)
	end := time.Now().Add(n.opts.WaitLimit)
	for {
		select {
		case <-cut:
			n.Stop()
			n.Runtime.Restore()
			n.Start()
			return true
		case <-time.After(2 * time.Millisecond):
		}
		if settled() {
			n.Runtime.Restore()
			return false
		}
		if time.Now().After(end) {
			n.t.Fatalf("neither the %d-th call nor the end was reached:\n%s", at, n.Explain())
		}
	}
}

// Apply adds pods, or replaces those of the same UID.
func (n *Node) Apply(pods ...*corev1.Pod) {
	for _, p := range pods {
		n.pods[p.UID] = p.DeepCopy()
	}
	n.deliver()
}

// Delete takes pods out of the source.
func (n *Node) Delete(uids ...types.UID) {
	for _, uid := range uids {
		delete(n.pods, uid)
	}
	n.deliver()
}

func (n *Node) deliver() {
	set := make([]*corev1.Pod, 0, len(n.pods))
	for _, p := range n.pods {
		set = append(set, p)
	}
	n.src.put(set)
}

// Agent returns the agent that runs now.
func (n *Node) Agent() *podsync.Agent { return n.current.Agent() }

// Node returns the node that runs now.
func (n *Node) Node() *node.Node { return n.current }

// Status returns the pod's status, its zero value before there is one.
func (n *Node) Status(uid types.UID) corev1.PodStatus {
	st, _ := n.current.Status.Get(uid)
	return st
}

// Wait waits until the pod's status is as asked and returns it, or fails the test.
func (n *Node) Wait(uid types.UID, ok func(corev1.PodStatus) bool) corev1.PodStatus {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), n.opts.WaitLimit)
	defer cancel()
	st, err := n.current.Status.Wait(ctx, uid, ok)
	if err != nil {
		n.t.Fatalf("wait for pod %s: %v\nstatus: %+v\n%s\ncalls:\n%s", uid, err, st, n.Explain(), n.Runtime.Calls())
	}
	return st
}

// WaitRunning waits until the pod is running and all its containers are ready.
func (n *Node) WaitRunning(uid types.UID) corev1.PodStatus {
	n.t.Helper()
	return n.Wait(uid, Ready)
}

// WaitEvent waits until there was an event of that reason about the pod of that
// name, or fails the test. A pod's status may be told before its event is.
func (n *Node) WaitEvent(name, reason string) {
	n.t.Helper()
	n.eventually(func() error {
		if n.Events.Has(name, reason) {
			return nil
		}
		return fmt.Errorf("no event %s about %s among: %v", reason, name, n.Events.All())
	})
}

// Ready tells whether the pod runs with all its containers ready.
func Ready(s corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return s.Phase == corev1.PodRunning && c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Phase returns a condition for Wait: the pod is in that phase.
func Phase(p corev1.PodPhase) func(corev1.PodStatus) bool {
	return func(s corev1.PodStatus) bool { return s.Phase == p }
}

// WaitGone waits until the agent has no such pod and nothing of it is left in
// the runtime and on disk.
func (n *Node) WaitGone(uid types.UID) {
	n.t.Helper()
	n.eventually(func() error {
		if e, ok := n.Agent().Explain(uid); ok {
			return fmt.Errorf("the agent still has it: %s", e)
		}
		if l := n.Leftovers(uid); len(l) > 0 {
			return fmt.Errorf("left over: %s", strings.Join(l, ", "))
		}
		return nil
	})
}

// Leftovers lists what is left of the pod in the runtime and below Root.
func (n *Node) Leftovers(uid types.UID) (left []string) {
	for _, l := range n.Runtime.Leftovers() {
		if strings.Contains(l, string(uid)) {
			left = append(left, l)
		}
	}
	for _, c := range n.Runtime.Containers() {
		if c.PodUID == string(uid) {
			left = append(left, "container "+c.Name)
		}
	}
	_ = filepath.WalkDir(n.Root, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), string(uid)) {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// Explain says where every pod is.
func (n *Node) Explain() string {
	var b strings.Builder
	for _, p := range n.Agent().Pods() {
		fmt.Fprintln(&b, p.Explanation)
		if p.Explanation.Trace != nil {
			_ = p.Explanation.Trace.WriteTable(&b)
		}
	}
	return b.String()
}

func (n *Node) eventually(ok func() error) {
	n.t.Helper()
	end := time.Now().Add(n.opts.WaitLimit)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%v\n%s\ncalls:\n%s", err, n.Explain(), n.Runtime.Calls())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// manifests is the source of a Node: the pods stay through restarts.
type manifests struct {
	mu   sync.Mutex
	pods []*corev1.Pod
	set  func([]*corev1.Pod)
}

func (*manifests) Name() string { return "test" }

func (m *manifests) Run(ctx context.Context, set func([]*corev1.Pod)) error {
	m.mu.Lock()
	m.set = set
	set(m.pods)
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set = nil
	return ctx.Err()
}

func (m *manifests) put(pods []*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = pods
	if m.set != nil {
		m.set(pods)
	}
}

// Events is an EventRecorder that keeps what it is told. Safe for concurrent use.
type Events struct {
	mu  sync.Mutex
	all []string
}

// Event implements podsync.EventRecorder.
func (e *Events) Event(p *corev1.Pod, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf("%s/%s %s %s: %s", p.Namespace, p.Name, eventType, reason, message))
}

// All returns the events as "namespace/name Type Reason: message".
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

// Has tells whether there was an event of that reason about the pod of that name.
func (e *Events) Has(name, reason string) bool {
	for _, l := range e.All() {
		f := strings.Fields(l)
		if strings.HasSuffix(f[0], "/"+name) && f[2] == reason+":" {
			return true
		}
	}
	return false
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
