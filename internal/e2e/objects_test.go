package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func configMap(name, key, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {%s: %q}\n", name, key, value)
}

// A config map that changes is seen in the container that has it as a volume,
// within seconds and without a restart.
func TestConfigMapChanges(t *testing.T) {
	r := sharedRig(t)
	r.object(t, "live", configMap("live", "text", "first"))
	r.apply(t, "live", pod("live", `
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sleep, "100000"]
    env: [{name: TEXT, valueFrom: {configMapKeyRef: {name: live, key: text}}}]
    volumeMounts: [{name: cm, mountPath: /cm}]
  volumes: [{name: cm, configMap: {name: live}}]
`))
	p := r.waitReady(t, "live")
	if got := r.sh(t, p, "app", "cat /cm/text; echo $TEXT"); got != "firstfirst" {
		t.Errorf("got %q", got)
	}
	began := time.Now()
	r.object(t, "live", configMap("live", "text", "second"))
	r.eventually(t, func() error {
		if got := r.sh(t, p, "app", "cat /cm/text"); got != "second" {
			return fmt.Errorf("the file has %q", got)
		}
		return nil
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	q := r.waitReady(t, "live")
	if containerID(q, "app") != containerID(p, "app") || r.sh(t, q, "app", "echo $TEXT") != "first" {
		t.Errorf("the container was restarted: %s", summary(q))
	}
	r.remove(t, "live")
	r.waitGone(t, p)
}

// A pod waits for the objects that it needs, says which, and starts when they come.
func TestObjectComesLate(t *testing.T) {
	r := sharedRig(t)
	r.apply(t, "late", pod("late", `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sleep, "100000"], volumeMounts: [{name: cm, mountPath: /cm}]}
  volumes: [{name: cm, configMap: {name: late}}]
`))
	r.eventually(t, func() error {
		if e := r.events("late"); !strings.Contains(e, "FailedMount") || !strings.Contains(e, "default/late") {
			return fmt.Errorf("no event about the missing config map:\n%s", e)
		}
		return nil
	})
	r.wait(t, "late", "pending", inPhase(corev1.PodPending))
	r.object(t, "late", configMap("late", "text", "here"))
	began := time.Now()
	p := r.waitReady(t, "late")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the pod took %s after its config map came", took)
	}
	r.remove(t, "late")
	r.waitGone(t, p)

	r.apply(t, "noenv", pod("noenv", `
  terminationGracePeriodSeconds: 0
  containers:
  - {name: app, image: $REGISTRY/busybox:1, command: [sleep, "100000"], envFrom: [{secretRef: {name: nosuch}}]}
`))
	p = r.wait(t, "noenv", "refused its configuration", func(p corev1.Pod) bool {
		w := containerStatus(p, "app").State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, "nosuch")
	})
	r.remove(t, "noenv")
	r.waitGone(t, p)
}
