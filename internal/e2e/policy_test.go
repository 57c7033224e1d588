package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A container that keeps exiting is restarted with growing pauses.
func TestCase_RUN_16_CrashLoop(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "crash", pod("crash", `
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, "echo run; exit 3"]}
  - {name: other, image: $REGISTRY/busybox:1, command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]}
`))
	p := r.wait(t, "crash", "in CrashLoopBackOff", func(p corev1.Pod) bool {
		w := containerStatus(p, "app").State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	app := containerStatus(p, "app")
	if e := app.LastTerminationState.Terminated; e == nil || e.ExitCode != 3 || e.Reason != "Error" || e.FinishedAt.IsZero() {
		t.Errorf("last state: %+v", e)
	}
	if p.Status.Phase != corev1.PodRunning || condition(p, corev1.PodReady) != corev1.ConditionFalse || app.Ready {
		t.Errorf("status: %s", summary(p))
	}
	if !strings.Contains(app.State.Waiting.Message, "back-off") {
		t.Errorf("message: %q", app.State.Waiting.Message)
	}
	// The first restart is at once, the second after 10 s.
	began := time.Now()
	p = r.wait(t, "crash", "restarted twice", func(p corev1.Pod) bool { return containerStatus(p, "app").RestartCount >= 2 })
	if took := time.Since(began); took < 5*time.Second || took > 40*time.Second {
		t.Errorf("the second restart came after %s", took)
	}
	if other := containerStatus(p, "other"); other.RestartCount != 0 || other.State.Running == nil {
		t.Errorf("the other container: %+v", other)
	}
	// The log of the run before last may have been collected with its container.
	if got := r.logOf(t, p, "app", 1); !slices.Equal(got, []string{"stdout run"}) {
		t.Errorf("log of the last run: %q", got)
	}
	r.remove(t, "crash")
	r.waitGone(t, p)
}

// Pods that are not restarted end, and are not run again.
func TestRestartPolicies(t *testing.T) {
	tests := []struct {
		name, policy, script string
		want                 corev1.PodPhase
		exit, restarts       int32
	}{
		{"never-ok", "Never", "exit 0", corev1.PodSucceeded, 0, 0},
		{"never-bad", "Never", "exit 7", corev1.PodFailed, 7, 0},
		{"onfailure-ok", "OnFailure", "exit 0", corev1.PodSucceeded, 0, 0},
		// Fails once: the mark is on a volume, which outlives the container.
		{"onfailure-bad", "OnFailure", "test -e /mark/1 || { touch /mark/1; exit 7; }", corev1.PodSucceeded, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := sharedRig(t)
			r.apply(t, tt.name, pod(tt.name, fmt.Sprintf(`
  restartPolicy: %s
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, %q], volumeMounts: [{name: mark, mountPath: /mark}]}
  volumes: [{name: mark, emptyDir: {}}]
`, tt.policy, tt.script)))
			p := r.wait(t, tt.name, string(tt.want), inPhase(tt.want))
			app := containerStatus(p, "app")
			if e := app.State.Terminated; e == nil || e.ExitCode != tt.exit || app.RestartCount != tt.restarts {
				t.Errorf("status: %s", summary(p))
			}
			time.Sleep(500 * time.Millisecond)
			if again := r.wait(t, tt.name, string(tt.want), inPhase(tt.want)); containerStatus(again, "app").ContainerID != app.ContainerID {
				t.Errorf("the pod was run again: %s", summary(again))
			}
			r.remove(t, tt.name)
			r.waitGone(t, p)
		})
	}
}

// An init container that fails keeps the pod from starting; with Never it fails the pod.
func TestInitContainerFails(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "badinit", pod("badinit", `
  restartPolicy: Never
  initContainers: [{name: first, image: $REGISTRY/busybox:1, command: [sh, -c, "exit 4"]}, {name: second, image: $REGISTRY/busybox:1}]
  containers: [{name: app, image: $REGISTRY/busybox:1, command: [sleep, "100000"]}]
`))
	p := r.wait(t, "badinit", "failed", inPhase(corev1.PodFailed))
	if e := containerStatus(p, "first").State.Terminated; e == nil || e.ExitCode != 4 || containerStatus(p, "app").ContainerID != "" || containerStatus(p, "second").ContainerID != "" {
		t.Errorf("status: %s", summary(p))
	}
	r.remove(t, "badinit")
	r.waitGone(t, p)
}

// The runtime's reason is passed on; 137 alone is not taken for one.
func TestCase_RUN_15_OOMKilled(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "oom", pod("oom", `
  restartPolicy: Never
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "tail -c 200m /dev/zero"]
    resources: {limits: {memory: 16Mi}}
  - {name: killed, image: $REGISTRY/busybox:1, command: [sh, -c, "kill -9 $$; exec sh -c 'kill -9 $$'"]}
`))
	p := r.wait(t, "oom", "failed", inPhase(corev1.PodFailed))
	if e := containerStatus(p, "app").State.Terminated; e == nil || e.Reason != "OOMKilled" || e.ExitCode != 137 {
		t.Errorf("status: %s", summary(p))
	}
	if e := containerStatus(p, "killed").State.Terminated; e == nil || e.Reason == "OOMKilled" {
		t.Errorf("status: %s", summary(p))
	}
	r.remove(t, "oom")
	r.waitGone(t, p)
}

func TestCase_RUN_10_PostStart(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "hook", pod("hook", `
  terminationGracePeriodSeconds: 2
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo $HOSTNAME >/tmp/started"]}}}
`))
	p := r.waitReady(t, "hook")
	if got := r.sh(t, p, "app", "cat /tmp/started"); got != "hook-e2e" {
		t.Errorf("the hook wrote %q", got)
	}
	r.remove(t, "hook")
	r.waitGone(t, p)

	r.apply(t, "badhook", pod("badhook", `
  terminationGracePeriodSeconds: 2
  restartPolicy: Never
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "echo token=abc; exit 1"]}}}
`))
	p = r.wait(t, "badhook", "ended", func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	if c := containerStatus(p, "app"); c.State.Terminated == nil || c.RestartCount != 0 {
		t.Errorf("status: %s", summary(p))
	}
	events := r.events("badhook")
	if !strings.Contains(events, "FailedPostStartHook") {
		t.Errorf("events:\n%s", events)
	}
	if strings.Contains(events, "token=abc") {
		t.Errorf("the hook's output is in the events:\n%s", events)
	}
	r.remove(t, "badhook")
	r.waitGone(t, p)
}

// preStop runs before TERM and within the grace.
func TestPreStop(t *testing.T) {
	r := sharedRig(t)
	dir := r.hostDir(t, "prestop")
	r.apply(t, "prestop", pod("prestop", fmt.Sprintf(`
  terminationGracePeriodSeconds: 30
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'echo term >>/host/order; exit 0' TERM; sleep 100000 & wait"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 1; echo hook >>/host/order"]}}}
    volumeMounts: [{name: host, mountPath: /host}]
  volumes: [{name: host, hostPath: {path: %s}}]
`, dir)))
	p := r.waitReady(t, "prestop")
	began := time.Now()
	r.remove(t, "prestop")
	r.waitGone(t, p)
	if took := time.Since(began); took < time.Second || took > 25*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if got := readFile(t, dir+"/order"); got != "hook\nterm\n" {
		t.Errorf("order: %q", got)
	}
}

// A container that ignores TERM is killed after its grace; a hook that does not
// end counts as grace too.
func TestGraceIsKept(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "deaf", pod("deaf", `
  terminationGracePeriodSeconds: 3
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, "trap '' TERM; while true; do sleep 1; done"]}
  - name: hooked
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    lifecycle: {preStop: {exec: {command: [sleep, "100"]}}}
`))
	p := r.waitReady(t, "deaf")
	began := time.Now()
	r.remove(t, "deaf")
	r.eventually(t, func() error {
		for _, c := range r.listed(t, p) {
			if c.State == 1 {
				return fmt.Errorf("container %s runs", c.Metadata.Name)
			}
		}
		return nil
	})
	// The kubelet gives 2 s more after a hook that ate the grace.
	if took := time.Since(began); took < 2900*time.Millisecond || took > 15*time.Second {
		t.Errorf("the stop took %s", took)
	}
	r.waitGone(t, p)
}

// The sidecar is there until the main container has ended, also when that takes
// its time.
func TestCase_RUN_07_SidecarStopsLast(t *testing.T) {
	r := sharedRig(t)
	dir := r.hostDir(t, "sidecar")
	spec := `
  terminationGracePeriodSeconds: 20
  initContainers:
  - {name: s1, image: $REGISTRY/busybox:1, restartPolicy: Always, command: [sh, -c, "trap 'echo s1 >>/host/order; exit 0' TERM; touch /host/up-s1; sleep 100000 & wait"], volumeMounts: [{name: host, mountPath: /host}]}
  - {name: s2, image: $REGISTRY/busybox:1, restartPolicy: Always, command: [sh, -c, "trap 'echo s2 >>/host/order; exit 0' TERM; touch /host/up-s2; sleep 100000 & wait"], volumeMounts: [{name: host, mountPath: /host}]}
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sh, -c, "trap 'sleep 2; echo app >>/host/order; exit 0' TERM; touch /host/up-app; sleep 100000 & wait"], volumeMounts: [{name: host, mountPath: /host}]}
  volumes: [{name: host, hostPath: {path: DIR}}]
`
	r.apply(t, "side", pod("side", strings.ReplaceAll(spec, "DIR", dir)))
	p := r.waitReady(t, "side")
	// Before its trap is set the first process of a container does not hear TERM.
	r.eventually(t, func() error {
		for _, c := range []string{"s1", "s2", "app"} {
			if !exists(dir + "/up-" + c) {
				return fmt.Errorf("%s is not up", c)
			}
		}
		return nil
	})
	r.remove(t, "side")
	r.waitGone(t, p)
	if got := readFile(t, dir+"/order"); got != "app\ns2\ns1\n" {
		t.Errorf("order of the stop: %q", got)
	}
}
