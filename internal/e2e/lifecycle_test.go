package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ids are the runtime's ids of the pod's containers, by name.
func ids(p corev1.Pod) map[string]string {
	m := map[string]string{}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			m[c.Name] = c.ContainerID
		}
	}
	return m
}

// untouched fails the test unless the pod's containers are the same and were not restarted.
func untouched(t *testing.T, before, after corev1.Pod) {
	t.Helper()
	was, is := ids(before), ids(after)
	for name, id := range was {
		if is[name] != id || containerStatus(after, name).RestartCount != containerStatus(before, name).RestartCount {
			t.Errorf("pod %s: container %s was restarted: %s, now %s", after.Name, name, summary(before), summary(after))
		}
	}
	if before.UID != after.UID || before.Status.PodIP != after.Status.PodIP {
		t.Errorf("pod %s: UID %s, IP %s, now UID %s, IP %s", after.Name, before.UID, before.Status.PodIP, after.UID, after.Status.PodIP)
	}
}

// pid is the first process of a container.
func (r *rig) pid(t *testing.T, p corev1.Pod, container string) (pid int) {
	t.Helper()
	st, err := r.cri().ContainerStatus(t.Context(), containerID(p, container), true)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(st.Info["info"], `"pid":`)
	if _, err := fmt.Sscanf(after, "%d", &pid); !ok || err != nil || pid <= 1 {
		t.Fatalf("no pid in %q", st.Info["info"])
	}
	return pid
}

// kill9 kills the first process of a container, as a crash does.
func (r *rig) kill9(t *testing.T, p corev1.Pod, container string) {
	t.Helper()
	if err := syscall.Kill(r.pid(t, p, container), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// containerd goes away, orderly or by a crash, and comes back: what runs is left
// alone, what died meanwhile is restarted, what came meanwhile is started.
func TestCase_REC_06_RuntimeRestarts(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(map[bool]string{false: "restart", true: "crash"}[crash], func(t *testing.T) {
			r := ownRig(t)
			r.apply(t, "stays", pod("stays", small))
			r.apply(t, "dies", pod("dies", sleeper))
			stays, dies := r.waitReady(t, "stays"), r.waitReady(t, "dies")
			pid := r.pid(t, dies, "app")
			if crash {
				r.Kill()
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				r.apply(t, "comes", pod("comes", sleeper))
				time.Sleep(3 * time.Second) // the outage
				for _, name := range []string{"stays", "dies"} {
					if p := r.wait(t, name, "known", func(corev1.Pod) bool { return true }); p.Status.Phase != corev1.PodRunning {
						t.Errorf("while the runtime is away: %s", summary(p))
					}
				}
			} else {
				r.apply(t, "comes", pod("comes", sleeper))
			}
			if err := r.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			comes := r.waitReady(t, "comes")
			if comes.Status.PodIP == stays.Status.PodIP || comes.Status.PodIP == dies.Status.PodIP {
				t.Errorf("address %s is given out twice", comes.Status.PodIP)
			}
			if crash {
				q := r.wait(t, "dies", "restarted", func(p corev1.Pod) bool {
					return isReady(p) && containerStatus(p, "app").RestartCount == 1
				})
				if e := containerStatus(q, "app").LastTerminationState.Terminated; e == nil || q.Status.PodIP != dies.Status.PodIP {
					t.Errorf("the pod whose container died: %+v", q.Status)
				}
				r.runningOnce(t, q)
			} else {
				untouched(t, dies, r.waitReady(t, "dies"))
			}
			untouched(t, stays, r.waitReady(t, "stays"))
			r.runningOnce(t, stays)
			// The stream of events is there again: a crash is seen at once.
			began := time.Now()
			r.kill9(t, stays, "app")
			r.wait(t, "stays", "restarted", func(p corev1.Pod) bool {
				return isReady(p) && containerStatus(p, "app").RestartCount == 1
			})
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("the restart took %s", took)
			}
		})
	}
}

// containerd answers nothing at all for a while: nobody is declared dead, and the
// agent goes on afterwards with what it was told meanwhile.
func TestRuntimeHangs(t *testing.T) {
	r := ownRig(t, "--runtime-request-timeout", "2s")
	r.apply(t, "stays", pod("stays", small))
	r.apply(t, "leaves", pod("leaves", sleeper))
	stays, leaves := r.waitReady(t, "stays"), r.waitReady(t, "leaves")
	if err := syscall.Kill(r.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.apply(t, "comes", pod("comes", small))
	r.remove(t, "leaves")
	time.Sleep(6 * time.Second) // several calls run into their limit
	if p := r.wait(t, "stays", "known", func(corev1.Pod) bool { return true }); !isReady(p) {
		t.Errorf("while the runtime hangs: %s", summary(p))
	}
	if err := syscall.Kill(r.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	comes := r.waitReady(t, "comes")
	r.runningOnce(t, comes)
	r.waitGone(t, leaves)
	untouched(t, stays, r.waitReady(t, "stays"))
	if page, err := r.get(t.Context(), "/healthz"); err != nil || page != "ok" {
		t.Errorf("healthz: %q, %v", page, err)
	}
}

// An agent that is restarted under running pods touches none of them, sees what
// died while it was away, and removes what was taken out of its manifests.
func TestCase_REC_02_AgentRestarts(t *testing.T) {
	r := ownRig(t)
	r.demo(t)
	for _, name := range []string{"leaves", "dies", "changes"} {
		r.apply(t, name, pod(name, sleeper))
	}
	demo := r.waitReady(t, "demo")
	leaves, dies, changes := r.waitReady(t, "leaves"), r.waitReady(t, "dies"), r.waitReady(t, "changes")
	r.apply(t, "done", pod("done", "  restartPolicy: Never\n  containers: [{name: app, image: $REGISTRY/busybox:1, command: [\"true\"]}]"))
	done := r.wait(t, "done", "succeeded", inPhase(corev1.PodSucceeded))

	r.stop(t)
	r.begin(t)
	for _, p := range []corev1.Pod{demo, leaves, dies, changes} {
		untouched(t, p, r.waitReady(t, strings.TrimSuffix(p.Name, "-"+nodeName)))
	}
	untouched(t, done, r.wait(t, "done", "succeeded", inPhase(corev1.PodSucceeded)))

	r.stop(t)
	r.remove(t, "leaves")
	r.kill9(t, dies, "app")
	r.apply(t, "changes", pod("changes", strings.Replace(sleeper, "busybox:1", "library/busybox:1", 1)))
	r.begin(t)
	r.waitGone(t, leaves)
	q := r.wait(t, "dies", "restarted", func(p corev1.Pod) bool { return isReady(p) && containerStatus(p, "app").RestartCount == 1 })
	r.runningOnce(t, q)
	r.waitGone(t, changes)
	if c := r.waitReady(t, "changes"); c.UID == changes.UID || !strings.HasSuffix(c.Spec.Containers[0].Image, "library/busybox:1") {
		t.Errorf("the changed pod: UID %s, image %s", c.UID, c.Spec.Containers[0].Image)
	}
	untouched(t, demo, r.waitReady(t, "demo"))
}

// A container that crashes is restarted in its sandbox, and a sandbox that dies
// takes the whole pod along into a new one.
func TestCrashes(t *testing.T) {
	r := ownRig(t)
	r.apply(t, "web", pod("web", small))
	p := r.waitReady(t, "web")
	r.kill9(t, p, "app")
	q := r.wait(t, "web", "restarted", func(p corev1.Pod) bool { return isReady(p) && containerStatus(p, "app").RestartCount == 1 })
	if q.Status.PodIP != p.Status.PodIP || containerStatus(q, "first").RestartCount != 0 {
		t.Errorf("after a crash: %s", summary(q))
	}
	sandboxes, err := r.cri().ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(p.UID)}})
	if err != nil || len(sandboxes) != 1 {
		t.Fatalf("sandboxes %v, %v", sandboxes, err)
	}
	if err := r.cri().StopPodSandbox(t.Context(), sandboxes[0].Id); err != nil {
		t.Fatal(err)
	}
	q = r.wait(t, "web", "in a new sandbox", func(p corev1.Pod) bool { return isReady(p) && containerStatus(p, "app").RestartCount == 2 })
	r.runningOnce(t, q)
	if len(r.addresses()) != 1 {
		t.Errorf("addresses: %v", r.addresses())
	}
	r.remove(t, "web")
	r.waitGone(t, q)
}

// What is done to manifests while pods run.
func TestCase_CFG_03_Manifests(t *testing.T) {
	r := sharedRig(t)
	path := func(name string) string { return filepath.Join(r.manifests(), name+".yaml") }

	t.Run("half written", func(t *testing.T) {
		r.apply(t, "half", pod("half", sleeper))
		p := r.waitReady(t, "half")
		whole := r.substitute(pod("half", sleeper))
		if err := os.WriteFile(path("half"), []byte(whole[:40]), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		untouched(t, p, r.waitReady(t, "half"))
		changed := strings.Replace(whole, "sleep 100000", "sleep 200000", 1)
		if err := os.WriteFile(path("half"), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		r.waitGone(t, p)
		q := r.waitReady(t, "half")
		if q.UID == p.UID {
			t.Errorf("the pod's UID is still %s", q.UID)
		}
		r.runningOnce(t, q)
		r.remove(t, "half")
		r.waitGone(t, q)
	})
	t.Run("broken edit", func(t *testing.T) {
		r.apply(t, "broken", pod("broken", sleeper)+"---\n"+pod("broken2", sleeper))
		p, p2 := r.waitReady(t, "broken"), r.waitReady(t, "broken2")
		r.apply(t, "broken", pod("broken", sleeper)+"---\n"+pod("broken2", "  containers: [{name: app, image: $REGISTRY/busybox:1, command: true, ports: 7}]"))
		time.Sleep(time.Second)
		untouched(t, p, r.waitReady(t, "broken"))
		untouched(t, p2, r.waitReady(t, "broken2"))
		if log := r.log.String(); !strings.Contains(log, "broken.yaml") {
			t.Error("the log does not name the broken file")
		}
		// One of two is taken out, the other stays.
		r.apply(t, "broken", pod("broken", sleeper))
		r.waitGone(t, p2)
		untouched(t, p, r.waitReady(t, "broken"))
		r.remove(t, "broken")
		r.waitGone(t, p)
	})
	t.Run("removed during start", func(t *testing.T) {
		for _, after := range []time.Duration{0, 100, 200, 300, 500, 800} {
			name := fmt.Sprintf("brief%d", after)
			r.apply(t, name, pod(name, small))
			p := r.wait(t, name, "seen", func(corev1.Pod) bool { return true })
			time.Sleep(after * time.Millisecond)
			r.remove(t, name)
			r.waitGone(t, p)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		// Another image makes another pod of the same name: the old one stops first.
		r.apply(t, "swap", pod("swap", small))
		p := r.waitReady(t, "swap")
		r.apply(t, "swap", pod("swap", strings.Replace(small, "name: app, image: $REGISTRY/busybox", "name: app, image: $REGISTRY/library/busybox", 1)))
		q := r.wait(t, "swap", "ready again", func(q corev1.Pod) bool { return q.UID != p.UID && isReady(q) })
		r.waitGone(t, p)
		old, err := r.lastStop(p)
		if err != nil {
			t.Fatal(err)
		}
		if started := containerStatus(q, "app").State.Running.StartedAt; started.Time.Before(old.Truncate(time.Second)) {
			t.Errorf("the new pod started at %s, the old one stopped at %s", started, old)
		}
		r.runningOnce(t, q)
		r.remove(t, "swap")
		r.waitGone(t, q)
	})
}

// lastStop is when the agent's log says that the pod had stopped.
func (r *rig) lastStop(p corev1.Pod) (time.Time, error) {
	for l := range strings.Lines(r.log.String()) {
		if strings.Contains(l, string(p.UID)) && strings.Contains(l, "stage=stop-containers") {
			stamp, _, _ := strings.Cut(strings.TrimPrefix(l, "time="), " ")
			return time.Parse(time.RFC3339Nano, stamp)
		}
	}
	return time.Time{}, fmt.Errorf("pod %s has not stopped", p.Name)
}

// The pod is taken away from outside, and from the manifests, while the agent is
// dead: what it had mounted is found and removed, and what a hostPath has stays.
func TestCase_VOL_13_MountsOfAPodThatWentAway(t *testing.T) {
	r := ownRig(t)
	dir := r.hostDir(t, "data")
	if err := os.MkdirAll(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/sub/keep", []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.apply(t, "gone", pod("gone", strings.ReplaceAll(`
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sleep, "100000"]
    volumeMounts: [{name: host, mountPath: /sub, subPath: sub}, {name: mem, mountPath: /mem, subPath: x}]
  volumes: [{name: host, hostPath: {path: DIR}}, {name: mem, emptyDir: {medium: Memory}}]
`, "DIR", dir)))
	p := r.waitReady(t, "gone")
	r.kill()
	r.remove(t, "gone")
	sandboxes, err := r.cri().ListPodSandbox(t.Context(), nil)
	if err != nil || len(sandboxes) != 1 {
		t.Fatalf("sandboxes %v, %v", sandboxes, err)
	}
	if err := r.cri().StopPodSandbox(t.Context(), sandboxes[0].Id); err != nil {
		t.Fatal(err)
	}
	if err := r.cri().RemovePodSandbox(t.Context(), sandboxes[0].Id); err != nil {
		t.Fatal(err)
	}
	if left, err := r.leftovers(t.Context(), p.UID); err != nil || !strings.Contains(strings.Join(left, "\n"), "volume-subpaths") {
		t.Fatalf("no subPath is mounted: %v, %v", left, err)
	}
	r.begin(t)
	r.waitGone(t, p)
	if got := readFile(t, dir+"/sub/keep"); got != "kept" {
		t.Errorf("the hostPath's file has %q", got)
	}
}
