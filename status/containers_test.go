package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// Pinned behaviour 46, and cases RUN-03 and RUN-15: what becomes of a container's
// state over several observations of the runtime. want is short for the state.
func TestContainerStatuses(t *testing.T) {
	deleted := func(p *corev1.Pod) { ts := at(1); p.DeletionTimestamp = &ts }
	obs := func(rs ...*runtimePod) []*runtimePod { return rs }
	tests := []struct {
		name      string
		pod       *corev1.Pod
		seen      []*runtimePod // one computation each, in order
		waiting   status.Waiting
		container string
		want      string
	}{
		{"new pod", newPod(always, "a"), obs(inRuntime()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 0"},
		{"new pod with init containers", with(newPod(always, "a"), initContainers("i")), obs(inRuntime()), status.Waiting{}, "a", "waiting PodInitializing, restarts 0"},
		{"what the pod waits for", newPod(always, "a"), obs(inRuntime()), status.Waiting{Reason: "NetworkNotReady", Message: "no cni"}, "a", `waiting NetworkNotReady "no cni", restarts 0`},
		{"an error without a reason", newPod(always, "a"), obs(inRuntime()), status.Waiting{Message: "mount: no such device"}, "a", `waiting ContainerCreating "mount: no such device", restarts 0`},
		{"another container's own reason says more", newPod(always, "a", "b"), obs(inRuntime().ready().waits("b", "ErrImagePull", "404")), status.Waiting{Reason: "ErrImagePull", Message: "404", Stage: podsync.StageRuntime}, "a", "waiting ContainerCreating, restarts 0"},
		{"pull failed", newPod(always, "a"), obs(inRuntime().ready().waits("a", "ImagePullBackOff", "back-off")), status.Waiting{}, "a", `waiting ImagePullBackOff "back-off", restarts 0`},
		{"created, not started", newPod(always, "a"), obs(inRuntime().ready().created("a", "1")), status.Waiting{}, "a", "waiting, restarts 0"},
		{"created, start failed", newPod(always, "a"), obs(inRuntime().ready().created("a", "1").waits("a", "RunContainerError", "exec")), status.Waiting{}, "a", `waiting RunContainerError "exec", restarts 0`},
		{"running", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1")), status.Waiting{}, "a", "running, ready, restarts 0"},
		{"exited", newPod(never, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error")), status.Waiting{}, "a", "terminated Error 3, restarts 0"},
		{"reason of an old failure while it runs", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1").waits("a", "CrashLoopBackOff", "")), status.Waiting{}, "a", "running, ready, restarts 0"},
		{"restarted, former end in the runtime", newPod(always, "a"), obs(restarted(inRuntime().ready(), "a", "2", 1).ends("a", "1", 3, "Error")), status.Waiting{}, "a", "running, ready, restarts 1, last Error 3"},
		{"restarted, former end gone from the runtime", newPod(always, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error"), restarted(inRuntime().ready(), "a", "2", 1)), status.Waiting{}, "a", "running, ready, restarts 1, last Error 3"},
		{"former end stays while the instance does", newPod(always, "a"), obs(restarted(inRuntime().ready(), "a", "2", 1).ends("a", "1", 3, "Error"), restarted(inRuntime().ready(), "a", "2", 1)), status.Waiting{}, "a", "running, ready, restarts 1, last Error 3"},
		{"only the two newest count", newPod(always, "a"), obs(restarted(inRuntime().ready(), "a", "3", 2).ends("a", "2", 4, "Error").ends("a", "1", 3, "Error")), status.Waiting{}, "a", "running, ready, restarts 2, last Error 4"},
		{"crash loop", newPod(always, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error").waits("a", "CrashLoopBackOff", "10s")), status.Waiting{}, "a", `waiting CrashLoopBackOff "10s", restarts 0, last Error 3`},
		{"crash loop over", newPod(always, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error").waits("a", "CrashLoopBackOff", "10s"), restarted(inRuntime().ready(), "a", "2", 1).ends("a", "1", 3, "Error")), status.Waiting{}, "a", "running, ready, restarts 1, last Error 3"},
		{"no crash loop for one that will not be restarted", newPod(never, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error").waits("a", "CrashLoopBackOff", "10s")), status.Waiting{}, "a", "terminated Error 3, restarts 0"},
		{"no crash loop for a pod that is deleted", with(newPod(always, "a"), deleted), obs(inRuntime().ready().ends("a", "1", 3, "Error").waits("a", "CrashLoopBackOff", "10s")), status.Waiting{}, "a", "terminated Error 3, restarts 0"},

		{"46 vanished after running", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1"), inRuntime().ready()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 1, last ContainerStatusUnknown 137"},
		{"46 vanished, seen so twice", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1"), inRuntime().ready(), inRuntime().ready()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 1, last ContainerStatusUnknown 137"},
		{"46 vanished while deleted", with(newPod(always, "a"), deleted), obs(inRuntime().ready().runs("a", "1"), inRuntime().ready()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 0, last ContainerStatusUnknown 137"},
		{"46 vanished after an earlier end", newPod(always, "a"), obs(restarted(inRuntime().ready(), "a", "2", 1).ends("a", "1", 3, "Error"), inRuntime().ready()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 1, last Error 3"},
		{"46 vanished after it had ended", newPod(always, "a"), obs(inRuntime().ready().ends("a", "1", 3, "Error"), inRuntime().ready()), status.Waiting{}, "a", "terminated Error 3, restarts 0"},
		{"46 vanished before it ran", newPod(always, "a"), obs(inRuntime().ready().created("a", "1"), inRuntime().ready()), status.Waiting{}, "a", "waiting ContainerCreating, restarts 0"},
		{"lost by the runtime after running", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1"), inRuntime().ready().unknown("a", "1")), status.Waiting{}, "a", "terminated ContainerStatusUnknown 137, restarts 1"},
		{"lost by the runtime, seen so twice", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1"), inRuntime().ready().unknown("a", "1"), inRuntime().ready().unknown("a", "1")), status.Waiting{}, "a", "terminated ContainerStatusUnknown 137, restarts 1"},
		{"lost by the runtime, never seen running", newPod(always, "a"), obs(inRuntime().ready().unknown("a", "1")), status.Waiting{}, "a", "waiting, restarts 0"},
		{"restart count never falls", newPod(always, "a"), obs(restarted(inRuntime().ready(), "a", "2", 7), restarted(inRuntime().ready(), "a", "3", 0)), status.Waiting{}, "a", "running, ready, restarts 7"},
		{"runtime not observed", newPod(always, "a"), obs(inRuntime().ready().runs("a", "1"), &runtimePod{}), status.Waiting{}, "a", "running, ready, restarts 0"},

		{"RUN-03 finished init container pruned", with(newPod(always, "a"), initContainers("i")), obs(inRuntime().ready().runs("a", "2").ends("i", "1", 0, "Completed"), inRuntime().ready().runs("a", "2")), status.Waiting{}, "i", "terminated Completed 0, ready, restarts 0"},
		{"RUN-03 the same, never seen", with(newPod(always, "a"), initContainers("i")), obs(inRuntime().ready().runs("a", "2")), status.Waiting{}, "i", "terminated Completed 0, ready, restarts 0"},
		{"RUN-03 only the first of two pruned", with(newPod(always, "a"), initContainers("i", "j")), obs(inRuntime().ready().ends("i", "1", 0, "Completed"), inRuntime().ready().runs("j", "2")), status.Waiting{}, "i", "terminated Completed 0, ready, restarts 0"},
		{"sidecar that is gone has not completed", with(newPod(always, "a"), sidecars("s")), obs(inRuntime().ready().runs("a", "2")), status.Waiting{}, "s", "waiting PodInitializing, restarts 0"},
		{"init exited 0 does not wait to be restarted", with(newPod(always, "a"), initContainers("i")), obs(inRuntime().ready().ends("i", "1", 0, "Completed").waits("i", "CrashLoopBackOff", "")), status.Waiting{}, "i", "terminated Completed 0, ready, restarts 0"},
		{"failed init container", with(newPod(never, "a"), initContainers("i")), obs(inRuntime().ready().ends("i", "1", 1, "Error")), status.Waiting{}, "i", "terminated Error 1, restarts 0"},
		{"init container runs", with(newPod(never, "a"), initContainers("i")), obs(inRuntime().ready().runs("i", "1")), status.Waiting{}, "i", "running, restarts 0"},

		{"RUN-15 137 and OOMKilled", newPod(never, "a"), obs(inRuntime().ready().ends("a", "1", 137, "OOMKilled")), status.Waiting{}, "a", "terminated OOMKilled 137, restarts 0"},
		{"RUN-15 137 alone is no OOMKilled", newPod(never, "a"), obs(inRuntime().ready().ends("a", "1", 137, "Error")), status.Waiting{}, "a", "terminated Error 137, restarts 0"},
		{"RUN-15 143 and OOMKilled", newPod(never, "a"), obs(inRuntime().ready().ends("a", "1", 143, "OOMKilled")), status.Waiting{}, "a", "terminated OOMKilled 143, restarts 0"},
		{"RUN-15 init 0 and OOMKilled is not ready", with(newPod(never, "a"), initContainers("i")), obs(inRuntime().ready().ends("i", "1", 0, "OOMKilled")), status.Waiting{}, "i", "terminated OOMKilled 0, restarts 0"},

		{"45 removed for a restart of all", restartAllPod(), obs(inRuntime().ready().runs("b", "2").ends("a", "1", 42, "Error"), inRuntime().ready().ends("a", "1", 42, "Error")), status.Waiting{}, "b", "waiting RestartingAllContainers, restarts 1, last RestartingAllContainers 137"},
		{"45 the same, seen twice", restartAllPod(), obs(inRuntime().ready().runs("b", "2").ends("a", "1", 42, "Error"), inRuntime().ready().ends("a", "1", 42, "Error"), inRuntime().ready().ends("a", "1", 42, "Error")), status.Waiting{}, "b", "waiting RestartingAllContainers, restarts 1, last RestartingAllContainers 137"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ins []status.Input
			for _, r := range tt.seen {
				ins = append(ins, status.Input{Pod: tt.pod, Runtime: r.done(), Now: at(10), Waiting: tt.waiting})
			}
			s := computeAfter(ins...)
			got := describe(find(t, append(s.InitContainerStatuses, s.ContainerStatuses...), tt.container))
			if got != tt.want {
				t.Errorf("status of %s\n got %s\nwant %s", tt.container, got, tt.want)
			}
		})
	}
}

func restarted(r *runtimePod, name, id string, count int) *runtimePod {
	return r.add(podsync.RuntimeContainer{
		ID: id, Name: name, State: podsync.ContainerRunning, RestartCount: count, StartedAt: t0,
	})
}

func restartAllPod() *corev1.Pod {
	return with(newPod(never, "a", "b"), containerPolicy("a", cNever, onExit(restartAll, in, 42)))
}

// describe words a container status for comparison.
func describe(s corev1.ContainerStatus) string {
	var b strings.Builder
	switch {
	case s.State.Running != nil:
		b.WriteString("running")
	case s.State.Terminated != nil:
		b.WriteString("terminated " + end(s.State.Terminated))
	case s.State.Waiting != nil:
		b.WriteString("waiting")
		if r := s.State.Waiting.Reason; r != "" {
			b.WriteString(" " + r)
		}
		if m := s.State.Waiting.Message; m != "" {
			b.WriteString(` "` + m + `"`)
		}
	}
	if s.Ready {
		b.WriteString(", ready")
	}
	b.WriteString(", restarts " + itoa(s.RestartCount))
	if l := s.LastTerminationState.Terminated; l != nil {
		b.WriteString(", last " + end(l))
	}
	return b.String()
}

func end(t *corev1.ContainerStateTerminated) string { return t.Reason + " " + itoa(t.ExitCode) }

func itoa(n int32) string { return resource.NewQuantity(int64(n), resource.DecimalSI).String() }

// STA-10: a container with a probe is not ready before a prober says so, and an
// agent that starts again neither invents readiness nor takes it back.
func TestCase_STA_10_ReadinessComesFromProbes(t *testing.T) {
	probed := func() *corev1.Pod {
		p := newPod(always, "a")
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
		p.Spec.Containers[0].StartupProbe = &corev1.Probe{}
		return p
	}
	said := func(id string, started, ready bool) *corev1.PodStatus {
		return &corev1.PodStatus{ContainerStatuses: css{{
			Name: "a", ContainerID: "cri://" + id, Started: &started, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}
	}
	runs := func() *runtimePod { return inRuntime().ready().runs("a", "1") }
	tests := []struct {
		name                   string
		pod                    *corev1.Pod
		runtime                *runtimePod
		off                    bool
		previous               *corev1.PodStatus
		wantStarted, wantReady bool
	}{
		{name: "no prober at all", pod: probed(), runtime: runs(), off: true, wantStarted: true, wantReady: true},
		{name: "no probes", pod: newPod(always, "a"), runtime: runs(), wantStarted: true, wantReady: true},
		{name: "no verdict yet", pod: probed(), runtime: runs()},
		{name: "started, not ready", pod: probed(), runtime: runs().probe("a", "1", true, false), wantStarted: true},
		{name: "ready", pod: probed(), runtime: runs().probe("a", "1", true, true), wantStarted: true, wantReady: true},
		{name: "not started is never ready", pod: probed(), runtime: runs().probe("a", "1", false, true)},
		{name: "verdict on another instance", pod: probed(), runtime: runs().probe("a", "0", true, true)},
		{name: "restart of the agent, was not ready", pod: probed(), runtime: runs(), previous: said("1", true, false), wantStarted: true},
		{name: "restart of the agent, was ready", pod: probed(), runtime: runs(), previous: said("1", true, true), wantStarted: true, wantReady: true},
		{name: "restart of the agent, another instance was ready", pod: probed(), runtime: runs(), previous: said("0", true, true)},
		{name: "verdict beats what was said", pod: probed(), runtime: runs().probe("a", "1", true, false), previous: said("1", true, true), wantStarted: true},
		{name: "verdict on one that has ended", pod: probed(), runtime: inRuntime().ready().ends("a", "1", 0, "Completed").probe("a", "1", true, true)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := status.Compute(status.Input{Pod: tt.pod, Runtime: tt.runtime.done(), Previous: tt.previous, Probed: !tt.off, Now: at(0)})
			c := s.ContainerStatuses[0]
			if *c.Started != tt.wantStarted || c.Ready != tt.wantReady {
				t.Errorf("started %v, ready %v; want %v, %v", *c.Started, c.Ready, tt.wantStarted, tt.wantReady)
			}
		})
	}
}

func TestContainerStatuses_Details(t *testing.T) {
	pod := with(newPod(always, "b", "a"), initContainers("z", "y"))
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	c := &pod.Spec.Containers[1]
	c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("64Mi")}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data"}, {Name: "w", MountPath: "/ro/", ReadOnly: true}}
	r := inRuntime().ready().runs("debug", "9").add(podsync.RuntimeContainer{
		ID: "1", Name: "a", State: podsync.ContainerRunning, StartedAt: t0.Add(1500 * time.Millisecond),
		Image: "example.com/a:1", ImageRef: "example.com/a@sha256:0",
		Resources: &podsync.RuntimeResources{CPUShares: 102, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 128 << 20},
		User:      &podsync.RuntimeUser{UID: 1000, GID: 1000, SupplementalGroups: []int64{7}},
		Mounts:    []podsync.RuntimeMount{{ContainerPath: "/ro", ReadOnly: true, RecursiveReadOnly: true}},
	}).done()
	init, regular, ephemeral := status.ContainerStatuses(status.Input{Pod: pod, Runtime: r, RuntimeName: "containerd"})

	var order []string
	for _, s := range append(append(init, regular...), ephemeral...) {
		order = append(order, s.Name)
	}
	if diff := cmp.Diff([]string{"z", "y", "a", "b", "debug"}, order); diff != "" {
		t.Errorf("init containers in spec order, the others by name (-want +got):\n%s", diff)
	}
	if ephemeral[0].Started != nil || ephemeral[0].Ready || ephemeral[0].State.Running == nil {
		t.Errorf("ephemeral container: %+v; it runs, and is never started or ready", ephemeral[0])
	}
	want := corev1.ContainerStatus{
		Name: "a", Image: "example.com/a:1", ImageID: "example.com/a@sha256:0", ContainerID: "containerd://1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(1)}},
		Ready: true, Started: ptr(true),
		AllocatedResources: c.Resources.Requests,
		Resources: &corev1.ResourceRequirements{
			Requests: c.Resources.Requests,
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("128Mi")},
		},
		VolumeMounts: []corev1.VolumeMountStatus{
			{Name: "v", MountPath: "/data"},
			{Name: "w", MountPath: "/ro/", ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyEnabled)},
		},
		User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 1000, SupplementalGroups: []int64{7}}},
	}
	if diff := cmp.Diff(want, regular[0]); diff != "" {
		t.Errorf("status of a running container (-want +got):\n%s", diff)
	}
	if got := c.Resources.Limits.Memory().String(); got != "64Mi" {
		t.Errorf("the spec was changed: memory limit %s", got)
	}
}

func TestContainerStatuses_Resources(t *testing.T) {
	tests := []struct {
		name                 string
		request, limit       string
		shares, quota        int64
		wantRequest, wantLim string
	}{
		{"as wanted, though rounded in the runtime", "333m", "333m", 340, 33_300, "333m", "333m"},
		{"actual differs", "100m", "200m", 512, 100_000, "500m", "1"},
		{"tiny values say nothing", "1m", "5m", 2, 1000, "1m", "5m"},
		{"runtime reports none", "100m", "200m", 0, 0, "100m", "200m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(always, "a")
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(tt.request)},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse(tt.limit)},
			}
			r := inRuntime().ready().add(podsync.RuntimeContainer{
				ID: "1", Name: "a", State: podsync.ContainerRunning,
				Resources: &podsync.RuntimeResources{CPUShares: tt.shares, CPUQuota: tt.quota, CPUPeriod: 100_000},
			}).done()
			_, regular, _ := status.ContainerStatuses(status.Input{Pod: pod, Runtime: r})
			got := regular[0].Resources
			if got.Requests.Cpu().String() != tt.wantRequest || got.Limits.Cpu().String() != tt.wantLim {
				t.Errorf("cpu %s/%s, want %s/%s", got.Requests.Cpu(), got.Limits.Cpu(), tt.wantRequest, tt.wantLim)
			}
		})
	}
}

func TestCompute_MessagesAreLimited(t *testing.T) {
	const limit = 12 << 10
	pod := newPod(never, "a", "b", "c")
	long := strings.Repeat("é", limit)
	r := inRuntime().ready()
	for _, n := range []string{"a", "b", "c"} {
		r.add(podsync.RuntimeContainer{ID: n, Name: n, State: podsync.ContainerExited, ExitCode: 1, Message: long})
	}
	s := status.Compute(status.Input{Pod: pod, Runtime: r.done(), Now: at(0)})
	total := 0
	for _, c := range s.ContainerStatuses {
		m := c.State.Terminated.Message
		total += len(m)
		if !strings.HasPrefix(long, m) || len(m) < limit/3-1 {
			t.Errorf("message of %s is cut to %d bytes, or within a character", c.Name, len(m))
		}
	}
	if total > limit {
		t.Errorf("messages have %d bytes together, want at most %d", total, limit)
	}
	r = inRuntime().ready().add(podsync.RuntimeContainer{ID: "1", Name: "a", State: podsync.ContainerExited, Message: "a\xffb"})
	s = status.Compute(status.Input{Pod: newPod(never, "a"), Runtime: r.done(), Now: at(0)})
	if got := s.ContainerStatuses[0].State.Terminated.Message; got != "a\uFFFDb" {
		t.Errorf("message %q, want valid UTF-8", got)
	}
}
