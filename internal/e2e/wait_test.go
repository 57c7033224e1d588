package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// wait waits until the pod of that name, without the node's, is as asked.
func (r *rig) wait(t *testing.T, name, what string, ok func(corev1.Pod) bool) corev1.Pod {
	t.Helper()
	var last corev1.Pod
	r.eventually(t, func() error {
		pods, err := r.pods(t.Context())
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Name == name+"-"+nodeName && ok(p) {
				last = p
				return nil
			} else if p.Name == name+"-"+nodeName {
				return fmt.Errorf("pod %s is not %s: %s", name, what, summary(p))
			}
		}
		return fmt.Errorf("there is no pod %s, which is to be %s", name, what)
	})
	return last
}

// waitReady waits until the pod is running with all containers ready.
func (r *rig) waitReady(t *testing.T, name string) corev1.Pod {
	t.Helper()
	return r.wait(t, name, "ready", func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && isReady(p) })
}

// waitGone waits until nothing is left of the pod.
func (r *rig) waitGone(t *testing.T, p corev1.Pod) {
	t.Helper()
	r.eventually(t, func() error {
		left, err := r.leftovers(t.Context(), p.UID)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("left of pod %s: %s", p.Name, strings.Join(left, "; "))
		}
		return nil
	})
}

// eventually tries until there is no error.
func (r *rig) eventually(t *testing.T, try func() error) {
	t.Helper()
	if err := poll(t.Context(), waitLimit, try); err != nil {
		explained, _ := r.get(t.Context(), "/explain")
		t.Fatalf("%v\n%s", err, explained)
	}
}

// poll tries until there is no error, or the time is over.
func poll(ctx context.Context, limit time.Duration, try func() error) error {
	end := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isReady(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && condition(p, corev1.PodReady) == corev1.ConditionTrue
}

func condition(p corev1.Pod, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}

// inPhase is a condition for wait.
func inPhase(want corev1.PodPhase) func(corev1.Pod) bool {
	return func(p corev1.Pod) bool { return p.Status.Phase == want }
}

// containerStatus returns the status of any kind of container; its zero value
// if there is none.
func containerStatus(p corev1.Pod, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.ContainerStatus{}
}

// containerID is the runtime's id of a container.
func containerID(p corev1.Pod, name string) string {
	return strings.TrimPrefix(containerStatus(p, name).ContainerID, "containerd://")
}

// runningOnce fails the test unless each of the pod's app containers runs once
// and no container runs twice.
func (r *rig) runningOnce(t *testing.T, p corev1.Pod) {
	t.Helper()
	running := map[string]int{}
	for _, c := range r.listed(t, p) {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			running[c.Metadata.Name]++
		}
	}
	for _, c := range p.Spec.Containers {
		if running[c.Name] != 1 {
			t.Errorf("pod %s: %d running containers of %s", p.Name, running[c.Name], c.Name)
		}
	}
	for name, n := range running {
		if n > 1 {
			t.Errorf("pod %s: %d running containers of %s", p.Name, n, name)
		}
	}
	ready := 0
	sandboxes, err := r.cri().ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	if ready != 1 {
		t.Errorf("pod %s: %d ready sandboxes", p.Name, ready)
	}
}

func summary(p corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase %s %s %s, deleted %v", p.Status.Phase, p.Status.Reason, p.Status.Message, p.DeletionTimestamp != nil)
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			fmt.Fprintf(&b, "; %s ready %v restarts %d ", c.Name, c.Ready, c.RestartCount)
			switch s := c.State; {
			case s.Waiting != nil:
				fmt.Fprintf(&b, "waiting %s %s", s.Waiting.Reason, s.Waiting.Message)
			case s.Running != nil:
				fmt.Fprint(&b, "running")
			case s.Terminated != nil:
				fmt.Fprintf(&b, "terminated %d %s %s", s.Terminated.ExitCode, s.Terminated.Reason, s.Terminated.Message)
			}
		}
	}
	return b.String()
}

// pod makes a manifest. The lines of spec are indented as they are to stand
// below "spec:".
func pod(name, spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n" + strings.Trim(spec, "\n") + "\n"
}

// sleeper is the spec of a pod of one container that does nothing and ends at once
// when told to.
const sleeper = `
  terminationGracePeriodSeconds: 5
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]}
`
