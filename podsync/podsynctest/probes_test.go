package podsynctest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// health is what the probes of a container find: exec of "live", "ready", "up".
type health struct{ live, ready, up atomic.Bool }

func (h *health) behaviour() memory.Behaviour {
	return memory.Behaviour{Exec: func(_ context.Context, cmd []string) memory.ExecResult {
		ok := map[string]*atomic.Bool{"live": &h.live, "ready": &h.ready, "up": &h.up}[cmd[0]]
		if !ok.Load() {
			return memory.ExecResult{ExitCode: 1, Stdout: []byte("not " + cmd[0])}
		}
		return memory.ExecResult{}
	}}
}

func execProbe(cmd string, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{cmd}}}, PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures}
}

func probed(name string, c corev1.Container) *corev1.Pod {
	p := podsynctest.Pod(podsynctest.Named(name), podsynctest.Grace(time.Second))
	c.Name, c.Image = p.Spec.Containers[0].Name, p.Spec.Containers[0].Image
	p.Spec.Containers[0] = c
	return p
}

func instances(n *podsynctest.Node, name string) (all, running int) {
	for _, c := range n.Runtime.Containers() {
		if c.Name == name {
			all++
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				running++
			}
		}
	}
	return all, running
}

func isReady(s corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// A container whose liveness probe fails is killed and started again, with the
// kubelet's events; one whose readiness probe fails is not.
func TestProbes(t *testing.T) {
	inBubble(t, "liveness", func(t *testing.T) {
		var h health
		h.live.Store(true)
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Named("app", h.behaviour())}}, Change: quick})
		pod := probed("web", corev1.Container{LivenessProbe: execProbe("live", 2)})
		pod.Spec.Containers[0].Name = "app"
		n.Apply(pod)
		n.WaitRunning(pod.UID)
		h.live.Store(false)
		n.WaitEvent("web", "Unhealthy")
		n.WaitEvent("web", "Killing")
		h.live.Store(true)
		n.Wait(pod.UID, func(s corev1.PodStatus) bool {
			return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].RestartCount >= 1 && s.ContainerStatuses[0].Ready
		})
		once(t, n.Runtime)
	})
	inBubble(t, "readiness", func(t *testing.T) {
		var h health
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Named("app", h.behaviour())}}, Change: quick})
		pod := probed("web", corev1.Container{ReadinessProbe: execProbe("ready", 1)})
		pod.Spec.Containers[0].Name = "app"
		n.Apply(pod)
		n.WaitEvent("web", "Unhealthy")
		if s := n.Status(pod.UID); isReady(s) || s.Phase != corev1.PodRunning {
			t.Errorf("before the first success: phase %s, ready %v", s.Phase, isReady(s))
		}
		h.ready.Store(true)
		n.Wait(pod.UID, isReady)
		h.ready.Store(false)
		n.Wait(pod.UID, func(s corev1.PodStatus) bool { return !isReady(s) })
		if all, _ := instances(n, "app"); all != 1 {
			t.Errorf("%d instances: a container is not restarted for its readiness", all)
		}
	})
	inBubble(t, "startup", func(t *testing.T) {
		var h health
		h.live.Store(true)
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Named("app", h.behaviour())}}, Change: quick})
		pod := probed("web", corev1.Container{StartupProbe: execProbe("up", 3), LivenessProbe: execProbe("live", 1)})
		pod.Spec.Containers[0].Name = "app"
		n.Apply(pod)
		// Three failures: killed, and started again.
		n.Wait(pod.UID, func(s corev1.PodStatus) bool {
			return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].RestartCount >= 1
		})
		h.up.Store(true)
		n.Wait(pod.UID, func(s corev1.PodStatus) bool {
			c := s.ContainerStatuses[0]
			return c.Started != nil && *c.Started && c.Ready
		})
	})
}

// PRB-03: containers wait for a sidecar's startup probe; one that fails is
// restarted even with restartPolicy Never, and they start once it passes.
func TestCase_PRB_03_SidecarStartup(t *testing.T) {
	inBubble(t, "sidecar", func(t *testing.T) {
		var h health
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Named("proxy", h.behaviour())}}, Change: quick})
		pod := podsynctest.Pod(podsynctest.Named("web"), podsynctest.Grace(time.Second),
			podsynctest.Sidecar(corev1.Container{Name: "proxy", StartupProbe: execProbe("up", 1)}))
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		n.Apply(pod)
		n.Wait(pod.UID, func(s corev1.PodStatus) bool {
			return len(s.InitContainerStatuses) == 1 && s.InitContainerStatuses[0].RestartCount >= 1
		})
		if all, _ := instances(n, pod.Spec.Containers[0].Name); all != 0 {
			t.Error("the container was started before its sidecar had")
		}
		h.up.Store(true)
		n.WaitRunning(pod.UID)
	})
}

// STA-10: around a restart of the agent nothing flaps.
func TestCase_STA_10_ReadinessOverRestart(t *testing.T) {
	for name, ready := range map[string]bool{"not ready stays so": false, "ready stays so": true} {
		inBubble(t, name, func(t *testing.T) {
			var h health
			h.ready.Store(true)
			n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Named("app", h.behaviour())}}, Change: quick})
			pod := probed("web", corev1.Container{ReadinessProbe: execProbe("ready", 1)})
			pod.Spec.Containers[0].Name = "app"
			n.Apply(pod)
			n.Wait(pod.UID, isReady)
			h.ready.Store(ready)
			n.Wait(pod.UID, func(s corev1.PodStatus) bool { return isReady(s) == ready })
			time.Sleep(time.Minute) // so that the container is one from before
			n.Restart()
			var flaps atomic.Int32
			cancel := n.Node().Status.Subscribe(func(uid types.UID) {
				if s, ok := n.Node().Status.Get(uid); ok && isReady(s) != ready {
					flaps.Add(1)
				}
			})
			defer cancel()
			time.Sleep(5 * time.Second)
			if s := n.Status(pod.UID); isReady(s) != ready || flaps.Load() > 0 {
				t.Errorf("ready = %v, %d statuses said otherwise", isReady(s), flaps.Load())
			}
		})
	}
}
