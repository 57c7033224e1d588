package cri_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
)

// node is a Runtime on an in-memory runtime, with a little loop in the agent's
// place. It lives in a synctest bubble.
type node struct {
	t      *testing.T
	mem    *memory.Runtime
	rt     *cri.Runtime
	logs   string
	events *recorder
	opts   func(*cri.Options)
}

// bubble runs a test on a node in a synctest bubble: time is simulated.
func bubble(t *testing.T, o memory.Options, fn func(t *testing.T, n *node)) {
	t.Helper()
	bubbleWith(t, o, nil, fn)
}

func bubbleWith(t *testing.T, o memory.Options, opts func(*cri.Options), fn func(t *testing.T, n *node)) {
	t.Helper()
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New(o)
		defer mem.Shutdown()
		n := &node{t: t, mem: mem, logs: logs, events: &recorder{}, opts: opts}
		n.restart()
		fn(t, n)
	})
}

// restart makes a new Runtime, as a new process would.
func (n *node) restart() {
	n.t.Helper()
	o := cri.Options{Runtime: n.mem, Images: n.mem, Node: func() config.Node { return config.Node{LogsRoot: n.logs} }}
	if n.opts != nil {
		n.opts(&o)
	}
	rt, err := cri.New(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.rt = rt
}

func (n *node) newSync(pod *corev1.Pod, o ...podsync.SyncOption) *podsync.Sync {
	return podsync.NewSync(pod, append([]podsync.SyncOption{podsync.WithEvents(n.events)}, o...)...)
}

// sync runs the runtime stage once, with the time limit that a pipeline gives
// it: a pull has no other.
func (n *node) sync(ctx context.Context, pod *corev1.Pod) podsync.Outcome {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return n.rt.Sync().Run(ctx, n.newSync(pod))
}

// settle runs the runtime stage as an agent would until it neither changes
// anything nor fails, or until it asks for a later time; it returns that
// outcome. It gives up after 200 runs.
func (n *node) settle(pod *corev1.Pod) podsync.Outcome {
	n.t.Helper()
	var out podsync.Outcome
	for range 200 {
		out = n.sync(n.t.Context(), pod)
		d, again := out.RetryAfter()
		switch {
		case out.Kind() == podsync.KindRetry:
			time.Sleep(time.Second)
		case out.Kind() != podsync.KindContinue:
			return out
		case !again || d > 0:
			return out
		}
	}
	n.t.Fatalf("the pod does not settle; last outcome %v\n%s", out, n.show())
	return out
}

// until runs the stage, waiting as it asks, until cond holds.
func (n *node) until(pod *corev1.Pod, what string, cond func() bool) {
	n.t.Helper()
	for range 2000 {
		if cond() {
			return
		}
		out := n.sync(n.t.Context(), pod)
		d, again := out.RetryAfter()
		switch {
		case out.Kind() == podsync.KindRetry:
			time.Sleep(time.Second)
		case again:
			time.Sleep(d)
		default:
			time.Sleep(time.Second)
		}
		n.rt.Monitor().Invalidate(pod.UID) // nobody watches the runtime here
	}
	n.t.Fatalf("%s does not come about\n%s", what, n.show())
}

// stop runs the terminating stages until both are through.
func (n *node) stop(pod *corev1.Pod, grace time.Duration) {
	n.t.Helper()
	for range 50 {
		s := n.newSync(pod, podsync.WithGrace(grace), podsync.WithTermination(podsync.Termination{Deleted: true}))
		out := n.rt.StopContainers().Run(n.t.Context(), s)
		if !out.Stops() {
			if out = n.rt.VerifyStopped().Run(n.t.Context(), s); !out.Stops() {
				return
			}
		}
		time.Sleep(time.Second)
	}
	n.t.Fatalf("the pod does not stop\n%s", n.show())
}

// remove stops the pod and removes all of it.
func (n *node) remove(pod *corev1.Pod) {
	n.t.Helper()
	n.stop(pod, 30*time.Second)
	var err error
	for range 20 {
		if err = n.rt.Cleaner().Remove(n.t.Context(), pod.UID); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	n.t.Fatalf("the pod cannot be removed: %v\n%s", err, n.show())
}

// show renders what the runtime holds, oldest first: "app.1=RUNNING".
func (n *node) show() string {
	var out []string
	for _, c := range n.mem.Containers() {
		w := fmt.Sprintf("%s.%d=%s", c.Name, c.Attempt, strings.TrimPrefix(c.State.String(), "CONTAINER_"))
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			w += fmt.Sprintf("(%d)", c.ExitCode)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// running returns the names of the running containers, sorted.
func (n *node) running() []string {
	var out []string
	for _, c := range n.mem.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (n *node) runs(want ...string) func() bool {
	slices.Sort(want)
	return func() bool { return slices.Equal(n.running(), want) }
}

// readySandboxes counts them; -1 if the runtime does not say.
func (n *node) readySandboxes() int {
	boxes, err := n.mem.ListPodSandbox(context.WithoutCancel(n.t.Context()), nil)
	if err != nil {
		return -1 // the fault under test hit this very call
	}
	ready := 0
	for _, b := range boxes {
		if b.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	return ready
}

// observe returns the state with waiting reasons.
func (n *node) observe(pod *corev1.Pod) *podsync.RuntimePod {
	n.t.Helper()
	p, err := n.rt.Monitor().Observe(n.t.Context(), pod.UID)
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// methods returns the calls that were made, without those that only look.
func (n *node) mutations() []string {
	var out []string
	for _, c := range n.mem.Calls() {
		if c.Mutation > 0 {
			out = append(out, c.Method)
		}
	}
	return out
}

func (n *node) count(method string) int {
	k := 0
	for _, c := range n.mem.Calls() {
		if c.Method == method {
			k++
		}
	}
	return k
}

// recorder keeps events as "Reason: message".
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) Event(_ *corev1.Pod, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, reason+": "+message)
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

// has tells whether an event has that reason and holds that text.
func (r *recorder) has(reason, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(e string) bool {
		return strings.HasPrefix(e, reason+": ") && strings.Contains(e, text)
	})
}

// reasons returns the reasons in order.
func (r *recorder) reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, len(r.all))
	for i, e := range r.all {
		out[i], _, _ = strings.Cut(e, ":")
	}
	return out
}
