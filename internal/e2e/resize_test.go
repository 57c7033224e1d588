package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// cgroupValue reads a value of the cgroup of that name: the first of the files
// that there is in a hierarchy, for v1 and v2 call it differently.
func (r *rig) cgroupValue(name string, files ...string) (string, error) {
	for _, dir := range r.cgroups(func(n string) bool { return n == name }) {
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f))
			switch {
			case err == nil:
				return strings.TrimSpace(string(b)), nil
			case !errors.Is(err, fs.ErrNotExist):
				return "", err
			}
		}
	}
	return "", fmt.Errorf("no cgroup %s has any of %v", name, files)
}

// memoryAndQuota returns a cgroup's memory limit in MiB and its CPU in
// thousandths.
func (r *rig) memoryAndQuota(name string) (string, error) {
	mem, err := r.cgroupValue(name, "memory.limit_in_bytes", "memory.max")
	if err != nil {
		return "", err
	}
	quota, err := r.cgroupValue(name, "cpu.cfs_quota_us", "cpu.max")
	if err != nil {
		return "", err
	}
	var bytes, micros int64
	if _, err := fmt.Sscan(mem, &bytes); err != nil {
		return "", fmt.Errorf("memory limit %q of %s: %w", mem, name, err)
	}
	if _, err := fmt.Sscan(quota, &micros); err != nil {
		return "", fmt.Errorf("quota %q of %s: %w", quota, name, err)
	}
	return fmt.Sprintf("%dMi %dm", bytes>>20, micros/100), nil
}

// A manifest in which only amounts change resizes the running container and its
// pod's cgroup, up and down, also over a restart of the agent.
func TestResizeInPlace(t *testing.T) {
	r := ownRig(t) // its agent is killed
	manifest := func(cpu, mem string, policy string) string {
		return pod("resized", fmt.Sprintf(`
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    resources: {requests: {cpu: 50m, memory: 16Mi}, limits: {cpu: %s, memory: %s}}
    resizePolicy: [{resourceName: memory, restartPolicy: %s}, {resourceName: cpu, restartPolicy: NotRequired}]
`, cpu, mem, policy))
	}
	inForce := func(p corev1.Pod, want string) {
		t.Helper()
		_, id, _ := strings.Cut(containerStatus(p, "app").ContainerID, "://")
		r.eventually(t, func() error {
			for _, name := range []string{id, "pod" + string(p.UID)} {
				got, err := r.memoryAndQuota(name)
				if err == nil && got != want {
					err = fmt.Errorf("cgroup %s has %s, want %s", name, got, want)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	shows := func(cpu, mem string) corev1.Pod {
		t.Helper()
		return r.wait(t, "resized", "ready with "+cpu+" and "+mem, func(p corev1.Pod) bool {
			res := containerStatus(p, "app").Resources
			return isReady(p) && condition(p, corev1.PodResizeInProgress) != corev1.ConditionTrue && res != nil &&
				res.Limits.Cpu().String() == cpu && res.Limits.Memory().String() == mem
		})
	}
	r.apply(t, "resized", manifest("200m", "64Mi", "NotRequired"))
	first := shows("200m", "64Mi")
	inForce(first, "64Mi 200m")
	for _, to := range [][2]string{{"400m", "128Mi"}, {"100m", "128Mi"}, {"300m", "32Mi"}} {
		r.apply(t, "resized", manifest(to[0], to[1], "NotRequired"))
		p := shows(to[0], to[1])
		inForce(p, to[1]+" "+to[0])
		if p.UID != first.UID || containerID(p, "app") != containerID(first, "app") || containerStatus(p, "app").RestartCount != 0 {
			t.Errorf("the container was replaced: %s", summary(p))
		}
	}
	// The agent is away while the manifest changes.
	r.kill()
	r.apply(t, "resized", manifest("250m", "96Mi", "NotRequired"))
	r.begin(t)
	p := shows("250m", "96Mi")
	inForce(p, "96Mi 250m")
	if containerID(p, "app") != containerID(first, "app") {
		t.Errorf("the container was replaced: %s", summary(p))
	}
	r.remove(t, "resized")
	r.waitGone(t, p)
}

// A resizePolicy that asks for it has the container restarted, in its sandbox.
func TestResizeWithRestart(t *testing.T) {
	r := sharedRig(t)
	manifest := func(mem string) string {
		return pod("reborn", fmt.Sprintf(`
  containers:
  - name: app
    image: $REGISTRY/busybox:1
    command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
    resources: {requests: {memory: 16Mi}, limits: {memory: %s}}
    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
`, mem))
	}
	r.apply(t, "reborn", manifest("64Mi"))
	first := r.waitReady(t, "reborn")
	r.apply(t, "reborn", manifest("128Mi"))
	p := r.wait(t, "reborn", "restarted with more memory", func(p corev1.Pod) bool {
		s := containerStatus(p, "app")
		return isReady(p) && s.RestartCount == 1 && s.Resources != nil && s.Resources.Limits.Memory().String() == "128Mi"
	})
	if p.UID != first.UID || p.Status.PodIP != first.Status.PodIP {
		t.Errorf("the pod was replaced: %s", summary(p))
	}
	_, id, _ := strings.Cut(containerStatus(p, "app").ContainerID, "://")
	if got, err := r.cgroupValue(id, "memory.limit_in_bytes", "memory.max"); err != nil || got != "134217728" {
		t.Errorf("memory limit %s, %v", got, err)
	}
	r.runningOnce(t, p)
	r.remove(t, "reborn")
	r.waitGone(t, p)
}
