package e2e_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A web server that is asked by all kinds of probes becomes ready; its page goes
// away and it is not; a command of its own says that it is dead and it is
// restarted.
func TestProbes(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "probed", pod("probed", `
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "mkdir -p /www; echo up > /www/index.html; touch /alive; sleep 1; exec httpd -f -p 8080 -h /www"]
    ports: [{name: http, containerPort: 8080}]
    startupProbe: {tcpSocket: {port: http}, periodSeconds: 1, failureThreshold: 30}
    readinessProbe: {httpGet: {path: /index.html, port: http}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {exec: {command: [test, -e, /alive]}, periodSeconds: 1, failureThreshold: 2}
`))
	p := r.waitReady(t, "probed")
	if c := containerStatus(p, "app"); c.RestartCount != 0 || c.Started == nil || !*c.Started {
		t.Fatalf("status: %s", summary(p))
	}
	id := containerID(p, "app")
	in := func(cmd ...string) {
		t.Helper()
		if _, stderr, err := r.cri().ExecSync(t.Context(), id, cmd, 10*time.Second); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	in("rm", "/www/index.html")
	p = r.wait(t, "probed", "not ready", func(p corev1.Pod) bool { return !isReady(p) })
	if c := containerStatus(p, "app"); c.RestartCount != 0 || c.State.Running == nil {
		t.Errorf("a container is not restarted for its readiness: %s", summary(p))
	}
	in("sh", "-c", "echo up > /www/index.html")
	r.waitReady(t, "probed")
	in("rm", "/alive")
	r.wait(t, "probed", "restarted", func(p corev1.Pod) bool { return containerStatus(p, "app").RestartCount == 1 && isReady(p) })
	r.remove(t, "probed")
	r.waitGone(t, p)
}

// PRB-01: a command that takes too long has failed when its timeout is over, and
// no second one is started beside it.
func TestCase_PRB_01_ExecTimeout(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "slowprobe", pod("slowprobe", `
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; while true; do sleep 1; done"]
    readinessProbe: {exec: {command: [sleep, "1234"]}, periodSeconds: 3, timeoutSeconds: 1, failureThreshold: 1}
`))
	p := r.wait(t, "slowprobe", "running", inPhase(corev1.PodRunning))
	time.Sleep(8 * time.Second)
	p = r.wait(t, "slowprobe", "not ready", func(p corev1.Pod) bool { return !isReady(p) })
	out, _, err := r.cri().ExecSync(t.Context(), containerID(p, "app"), []string{"ps"}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "sleep 1234"); n > 1 {
		t.Errorf("%d commands of the probe run:\n%s", n, out)
	}
	r.remove(t, "slowprobe")
	r.waitGone(t, p)
}
