package podsynctest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// rich is a pod with everything that the runtime stage goes through.
func rich(name string) *corev1.Pod {
	return podsynctest.Pod(podsynctest.Named(name), podsynctest.Grace(2*time.Second),
		podsynctest.Init(corev1.Container{Name: "setup"}),
		podsynctest.Sidecar(corev1.Container{Name: "proxy"}),
		podsynctest.Container(corev1.Container{Name: "second"}),
		podsynctest.Volume(corev1.Volume{Name: "work"}, "/work"))
}

func quick(c *node.Config) {
	c.Agent.Backoff = func(int) time.Duration { return 5 * time.Millisecond }
	c.Agent.Housekeeping = 50 * time.Millisecond
	c.CRI.RelistMin = 20 * time.Millisecond
	c.CRI.CallTimeout = 2 * time.Second
	c.CRI.CrashLoopInitial = 10 * time.Millisecond
}

var scripts = memory.Options{Rules: []memory.Rule{memory.Exits("setup", 0)}}

// once checks the invariant: one running container per name.
func once(t *testing.T, rt *memory.Runtime) {
	t.Helper()
	running := map[string]int{}
	for _, c := range rt.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running[c.PodUID+"/"+c.Name]++
		}
	}
	for k, n := range running {
		if n > 1 {
			t.Errorf("%d running containers of %s", n, k)
		}
	}
}

// inBubble runs a subtest in which waiting costs no time.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestNodeLife(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick, Verbose: true})
	n.Apply(rich("web"))
	st := n.WaitRunning("web-uid")
	if st.PodIP == "" || len(st.InitContainerStatuses) != 2 || len(st.ContainerStatuses) != 2 {
		t.Errorf("status: %+v", st)
	}
	n.Restart()
	n.WaitRunning("web-uid")
	for _, c := range n.Runtime.Containers() {
		if c.Attempt > 0 {
			t.Errorf("container %s was restarted with the agent", c.Name)
		}
	}
	n.Delete("web-uid")
	n.WaitGone("web-uid")
	if l := n.Runtime.Leftovers(); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
}

// The agent dies between any two calls of a pod's start and of its stop; the
// pod ends as if nothing had happened.
func TestCase_REC_05_PowerCutAtEveryCall(t *testing.T) {
	for _, m := range []memory.Moment{memory.Before, memory.After} {
		for at := 1; ; at++ {
			happened := false
			inBubble(t, fmt.Sprintf("start/%v/%d", m, at), func(t *testing.T) {
				n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick})
				n.Apply(rich("web"))
				happened = n.PowerCut(at, m, func() bool { return podsynctest.Ready(n.Status("web-uid")) })
				n.WaitRunning("web-uid")
				once(t, n.Runtime)
				n.Delete("web-uid")
				n.WaitGone("web-uid")
			})
			if !happened || t.Failed() {
				break
			}
		}
		for at := 1; ; at++ {
			happened := false
			inBubble(t, fmt.Sprintf("stop/%v/%d", m, at), func(t *testing.T) {
				n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick})
				n.Apply(rich("web"))
				n.WaitRunning("web-uid")
				n.Delete("web-uid")
				happened = n.PowerCut(at, m, func() bool { _, ok := n.Agent().Explain("web-uid"); return !ok })
				n.WaitGone("web-uid")
			})
			if !happened || t.Failed() {
				break
			}
		}
	}
}

// Every call of a pod's life in turn fails, hangs or loses its reply, once.
func TestEveryCallFailsOnce(t *testing.T) {
	faults := map[string]memory.Fault{
		"error":       {Err: errors.New("injected")},
		"hang":        {Hang: true},
		"reply lost":  {LoseReply: memory.ErrReplyLost},
		"reply hangs": {HangReply: true},
	}
	for _, kind := range []string{"error", "hang", "reply lost", "reply hangs"} {
		for at := 1; ; at++ {
			hit := false
			inBubble(t, fmt.Sprintf("%s/%d", kind, at), func(t *testing.T) {
				opts := scripts
				opts.Intercept = memory.OnMutation(at, faults[kind])
				n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: opts, Change: func(c *node.Config) {
					quick(c)
					c.CRI.CallTimeout = 50 * time.Millisecond
					c.CRI.Puller = images.New(images.Options{Service: c.Images, PullTimeout: 50 * time.Millisecond, InitialBackoff: 10 * time.Millisecond})
				}})
				n.Apply(rich("web"), podsynctest.Pod(podsynctest.Named("other"), podsynctest.Grace(time.Second)))
				n.WaitRunning("web-uid")
				n.WaitRunning("other-uid")
				once(t, n.Runtime)
				n.Delete("web-uid", "other-uid")
				n.WaitGone("web-uid")
				n.WaitGone("other-uid")
				if l := n.Runtime.Leftovers(); len(l) > 0 {
					t.Errorf("left over: %v", l)
				}
				mutations := 0
				for _, c := range n.Runtime.Calls() {
					if c.Mutation > 0 {
						mutations = max(mutations, c.Mutation)
					}
				}
				hit = mutations >= at
			})
			if !hit || t.Failed() {
				break
			}
		}
	}
}

func TestRejectedPodLeavesNothing(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: quick, Plan: func(p *podsync.Plan) {
		p.Admit.Before(podsync.StageResources, podsynctest.Script("example.com/no", podsync.Reject("LicenseMissing", "no license")))
	}})
	pod := podsynctest.Pod()
	pod.Status.QOSClass = corev1.PodQOSBurstable
	n.Apply(pod)
	st := n.Wait("web-uid", podsynctest.Phase(corev1.PodFailed))
	if st.Reason != "LicenseMissing" || !strings.Contains(st.Message, "no license") || st.QOSClass != corev1.PodQOSBurstable || len(st.ContainerStatuses) != 0 {
		t.Errorf("status: %+v", st)
	}
	if calls := n.Runtime.Calls(); slices.ContainsFunc(calls, func(c memory.Call) bool { return c.Mutation > 0 }) {
		t.Errorf("calls for a rejected pod:\n%s", calls)
	}
	if l := n.Leftovers("web-uid"); len(l) > 1 { // its status file
		t.Errorf("left over: %v", l)
	}
	n.WaitEvent("web", "LicenseMissing")
	n.Delete("web-uid")
	n.WaitGone("web-uid")
}

// A job's pod ends Succeeded or Failed, and an agent restart does not run it again.
func TestPodCompletes(t *testing.T) {
	for code, want := range map[int32]corev1.PodPhase{0: corev1.PodSucceeded, 3: corev1.PodFailed} {
		t.Run(string(want), func(t *testing.T) {
			n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: quick, Memory: memory.Options{Rules: []memory.Rule{memory.Exits("app", code)}}})
			n.Apply(podsynctest.Pod(podsynctest.Restart(corev1.RestartPolicyNever)))
			n.Wait("web-uid", podsynctest.Phase(want))
			n.Restart()
			time.Sleep(100 * time.Millisecond)
			st := n.Wait("web-uid", podsynctest.Phase(want))
			if got := st.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != code {
				t.Errorf("container: %+v", st.ContainerStatuses[0])
			}
			if c := n.Runtime.Containers(); len(c) != 1 {
				t.Errorf("containers: %+v", c)
			}
			n.Delete("web-uid")
			n.WaitGone("web-uid")
		})
	}
}

// A crashed container is restarted when its exit is reported, not on a tick.
func TestContainerRestarts(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: func(c *node.Config) { quick(c); c.CRI.RelistMin = time.Hour; c.CRI.RelistMax = time.Hour }})
	n.Apply(podsynctest.Pod())
	n.WaitRunning("web-uid")
	if err := n.Runtime.Exit("web-uid", "app", 1); err != nil {
		t.Fatal(err)
	}
	st := n.Wait("web-uid", func(s corev1.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].RestartCount == 1 && s.ContainerStatuses[0].State.Running != nil
	})
	if lt := st.ContainerStatuses[0].LastTerminationState.Terminated; lt == nil || lt.ExitCode != 1 {
		t.Errorf("last state: %+v", st.ContainerStatuses[0].LastTerminationState)
	}
}

func TestCase_NET_08_NetworkComesLate(t *testing.T) {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	rt.SetNetworkReady(false, "NetworkPluginNotReady", "cni plugin not initialized")
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Runtime: rt, Change: quick})
	n.Apply(podsynctest.Pod(podsynctest.Named("h"), podsynctest.HostNetwork()), podsynctest.Pod(podsynctest.Named("p")))
	n.WaitRunning("h-uid")
	n.Wait("p-uid", func(s corev1.PodStatus) bool {
		return s.Phase == corev1.PodPending && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil
	})
	n.WaitEvent("p", "NetworkNotReady")
	rt.SetNetworkReady(true, "", "")
	n.WaitRunning("p-uid")
}

// The runtime goes away under running pods and comes back: nothing is restarted.
func TestCase_REC_06_RuntimeRestarts(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick})
	n.Apply(rich("web"))
	n.WaitRunning("web-uid")
	n.Runtime.Down()
	time.Sleep(200 * time.Millisecond)
	if st := n.Status("web-uid"); st.Phase != corev1.PodRunning {
		t.Errorf("phase while the runtime is away: %s", st.Phase)
	}
	n.Runtime.Up()
	n.Runtime.ResetCalls()
	time.Sleep(200 * time.Millisecond)
	n.WaitRunning("web-uid")
	for _, c := range n.Runtime.Calls() {
		if c.Mutation > 0 {
			t.Errorf("after the runtime came back: %v", c)
		}
	}
}

// After a reboot the pods come back in new sandboxes.
func TestReboot(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick})
	n.Apply(rich("web"))
	n.WaitRunning("web-uid")
	n.Stop()
	n.Runtime.Reboot(memory.RebootOptions{})
	n.Start()
	n.Wait("web-uid", func(s corev1.PodStatus) bool {
		return podsynctest.Ready(s) && s.ContainerStatuses[0].RestartCount == 1
	})
	once(t, n.Runtime)
	n.Delete("web-uid")
	n.WaitGone("web-uid")
}

// A pod with the same name and another UID waits until the first has left.
func TestReplacedByAnotherUID(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: quick})
	n.Apply(podsynctest.Pod())
	n.WaitRunning("web-uid")
	n.Delete("web-uid")
	n.Apply(podsynctest.Pod(podsynctest.UID("second")))
	n.WaitRunning("second")
	n.WaitGone("web-uid")
}

func TestManyPods(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: scripts, Change: quick})
	var uids []types.UID
	var pods []*corev1.Pod
	for i := range 60 {
		p := rich(fmt.Sprintf("p%d", i))
		pods, uids = append(pods, p), append(uids, p.UID)
	}
	n.Apply(pods...)
	for _, uid := range uids {
		n.WaitRunning(uid)
	}
	n.Delete(uids...)
	for _, uid := range uids {
		n.WaitGone(uid)
	}
	if l := n.Runtime.Leftovers(); len(l) > 0 {
		t.Errorf("left over: %v", l)
	}
}

// A variable can come from a file that an init container left in an emptyDir,
// also when that is the volume's only use in the container.
func TestEnvironmentFromAFile(t *testing.T) {
	n := podsynctest.NewNode(t, podsynctest.NodeOptions{Change: quick})
	pod := podsynctest.Pod(podsynctest.Init(corev1.Container{Name: "setup"}),
		podsynctest.Container(corev1.Container{Name: "app", Env: []corev1.EnvVar{{
			Name: "FROM_FILE", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "work", Path: "app.env", Key: "B"}},
		}}}))
	pod.Spec.Volumes = []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	n.Apply(pod)
	n.Wait("web-uid", func(s corev1.PodStatus) bool {
		return len(s.InitContainerStatuses) == 1 && s.InitContainerStatuses[0].State.Running != nil
	})
	dir := filepath.Join(n.Root, "pods", "web-uid", "volumes", "kubernetes.io~empty-dir", "work")
	if err := os.WriteFile(filepath.Join(dir, "app.env"), []byte("A='1'\nB='two'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.Exit("web-uid", "setup", 0); err != nil {
		t.Fatal(err)
	}
	n.WaitRunning("web-uid")
	for _, c := range n.Runtime.Containers() {
		for _, kv := range c.Config.Envs {
			if c.Name == "app" && kv.Key == "FROM_FILE" && string(kv.Value) == "two" {
				return
			}
		}
	}
	t.Error("the variable is not in the container's environment")
}
