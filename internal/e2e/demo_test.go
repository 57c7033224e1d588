package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// demo brings the project's demo pod.
func (r *rig) demo(t *testing.T) {
	t.Helper()
	for from, put := range map[string]func(*testing.T, string, string){
		"../../examples/manifests/objects/demo.yaml": r.object,
		"../../examples/manifests/demo.yaml":         r.apply,
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(t, "demo", string(b))
	}
}

// The demo pod has everything: an init container, a sidecar, a private image, all
// volumes of the node's own. It is looked at from all sides, and then it goes
// without a trace.
func TestDemoPod(t *testing.T) {
	r := ownRig(t)
	r.demo(t)
	p := r.waitReady(t, "demo")

	t.Run("status", func(t *testing.T) { demoStatus(t, r, p) })
	t.Run("web", func(t *testing.T) {
		var page string
		r.eventually(t, func() (err error) { // the pod is ready when the server's process runs
			page, err = get(t.Context(), "http://"+p.Status.PodIP+":8080/")
			return err
		})
		for _, want := range []string{
			"Hello, from pod default/demo-e2e on node e2e\n", "address       " + p.Status.PodIP + "\n",
			"memory limit  64 MiB", `labels        app="demo"`, "a token of 17 characters", "17 bytes in a file of mode 440",
			"projected     greeting name token \n", "scratch       tmpfs on /scratch\n", "Served by busybox",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q:\n%s", want, page)
			}
		}
	})
	t.Run("inside", func(t *testing.T) {
		for script, want := range map[string]string{
			"id -u; id -g; id -G":                        "65534\n65534\n65534 2000",
			"echo $PAGE_greeting; echo $KUBERNETES_PORT": "Hello\n",
			"hostname":                   "demo-e2e",
			"touch /x 2>&1 || true":      "touch: /x: Read-only file system",
			"stat -c %g /www/index.html": "2000",
			"grep Seccomp: /proc/self/status | tr -d '\\t'":   "Seccomp:2",
			"grep NoNewPrivs /proc/self/status | tr -d '\\t'": "NoNewPrivs:1",
			"grep CapBnd /proc/self/status | tr -d '\\t'":     "CapBnd:0000000000000000",
		} {
			if got := r.sh(t, p, "web", script); got != strings.TrimRight(want, "\n") {
				t.Errorf("%s: got %q, want %q", script, got, want)
			}
		}
	})
	t.Run("cgroup", func(t *testing.T) { demoCgroup(t, r, p) })
	t.Run("pull secret", func(t *testing.T) {
		// Without the secret the same image is refused; so it was used.
		r.apply(t, "nosecret", pod("nosecret", "  containers: [{name: web, image: $REGISTRY/private/busybox:1}]\n  terminationGracePeriodSeconds: 0"))
		q := r.wait(t, "nosecret", "refused its image", func(p corev1.Pod) bool {
			w := containerStatus(p, "web").State.Waiting
			return w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") && strings.Contains(w.Message, "private/busybox")
		})
		r.remove(t, "nosecret")
		r.waitGone(t, q)
	})
	t.Run("logs", func(t *testing.T) {
		if got := r.logOf(t, p, "page", 0); len(got) != 1 || !strings.HasPrefix(got[0], "stdout wrote ") {
			t.Errorf("log of the init container: %q", got)
		}
		if got := r.logOf(t, p, "logger", 0); !strings.Contains(strings.Join(got, "\n"), "stdout the page has ") {
			t.Errorf("log of the sidecar: %q", got)
		}
	})
	r.remove(t, "demo")
	r.waitGone(t, p)
	r.eventually(t, func() error {
		left, err := r.leftovers(t.Context(), "")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, "; "))
		}
		return err
	})
}

func demoStatus(t *testing.T, r *rig, p corev1.Pod) {
	st := p.Status
	if !strings.HasPrefix(r.Subnet(), st.PodIP[:strings.LastIndexByte(st.PodIP, '.')]) || len(st.PodIPs) != 1 || st.PodIPs[0].IP != st.PodIP {
		t.Errorf("podIP %s, podIPs %v, the subnet is %s", st.PodIP, st.PodIPs, r.Subnet())
	}
	if st.HostIP != "127.0.0.1" || st.StartTime == nil || st.QOSClass != corev1.PodQOSBurstable {
		t.Errorf("hostIP %s, startTime %v, qosClass %s", st.HostIP, st.StartTime, st.QOSClass)
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		if condition(p, c) != corev1.ConditionTrue {
			t.Errorf("condition %s is %q", c, condition(p, c))
		}
	}
	if len(st.InitContainerStatuses) != 2 || len(st.ContainerStatuses) != 1 {
		t.Fatalf("container statuses: %+v, %+v", st.InitContainerStatuses, st.ContainerStatuses)
	}
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if !c.Ready || c.RestartCount != 0 || !strings.HasPrefix(c.ContainerID, "containerd://") || !strings.Contains(c.ImageID, "@sha256:") || !strings.HasPrefix(c.Image, suite.registry.Address+"/") {
			t.Errorf("status of %s: %+v", c.Name, c)
		}
	}
	if e := containerStatus(p, "page").State.Terminated; e == nil || e.ExitCode != 0 || e.Reason != "Completed" || e.FinishedAt.IsZero() {
		t.Errorf("state of the init container: %+v", e)
	}
	if s := containerStatus(p, "logger"); s.State.Running == nil || s.Started == nil || !*s.Started {
		t.Errorf("state of the sidecar: %+v", s)
	}
	b, err := os.ReadFile(filepath.Join(r.root, "status", string(p.UID)+".json"))
	if err != nil || !strings.Contains(string(b), st.PodIP) {
		t.Errorf("the status file: %v\n%s", err, b)
	}
}

// demoCgroup checks the pod's cgroup: the values are the kubelet's for the sum of
// web and the sidecar, 60m of CPU and no CPU limit, 64 + 32 Mi of memory.
func demoCgroup(t *testing.T, r *rig, p corev1.Pod) {
	dirs := r.cgroups(func(name string) bool { return name == "pod"+string(p.UID) })
	if len(dirs) == 0 {
		t.Fatalf("pod %s has no cgroup below %s", p.UID, r.CgroupRoot())
	}
	values := map[string]string{"cpu.shares": "61", "cpu.weight": "", "memory.limit_in_bytes": "100663296", "memory.max": "100663296", "cpu.cfs_quota_us": "-1"}
	seen := map[string]bool{}
	for _, d := range dirs {
		if rel := strings.SplitN(d, r.CgroupRoot(), 2)[1]; !strings.HasPrefix(rel, "/kubepods/burstable/pod") {
			t.Errorf("cgroup %s is not below the burstable tier", d)
		}
		for file, want := range values {
			b, err := os.ReadFile(filepath.Join(d, file))
			if err != nil || want == "" {
				continue
			}
			seen[file] = true
			if got := strings.TrimSpace(string(b)); got != want {
				t.Errorf("%s/%s is %s, not %s", d, file, got, want)
			}
		}
		if id := containerID(p, "web"); !exists(filepath.Join(d, id)) {
			t.Errorf("cgroup %s has none of container web, %s", d, id)
		}
	}
	if !seen["cpu.shares"] && !seen["memory.max"] {
		t.Errorf("no CPU shares and no memory limit in %v", dirs)
	}
}
