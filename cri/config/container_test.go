package config_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

// The values are those of the kubelet's own function.
func TestHash(t *testing.T) {
	for _, tt := range []struct {
		name, image string
		want        uint64
	}{
		{"test_container", "foo/image:v1", 0x8e45cbd0},
		{"app", "busybox:1.36", 0x395745},
		{"a<b>&\u2028", "é\xff/img@sha256:0", 0xe3441ca5},
		{"", "", 0xedd67cc4},
	} {
		if got := config.Hash(&corev1.Container{Name: tt.name, Image: tt.image, Args: []string{"x"}}); got != tt.want {
			t.Errorf("Hash(%q, %q) = %x, want %x", tt.name, tt.image, got, tt.want)
		}
	}
}

func TestContainerGolden(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		p.DeletionGracePeriodSeconds = ptr(int64(5))
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr(int64(2000)), SupplementalGroups: []int64{7}}
		c := app(p)
		c.Command, c.Args = []string{"/bin/sh", "-c"}, []string{"echo $(GREETING) $$(GREETING) $(NOBODY)"}
		c.WorkingDir, c.Stdin, c.StdinOnce, c.TTY = "/srv", true, true, true
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: "TCP"}}
		c.Lifecycle = &corev1.Lifecycle{
			PreStop:    &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}},
			StopSignal: ptr(corev1.Signal("SIGRTMIN+1")),
		}
		c.SecurityContext = &corev1.SecurityContext{
			Capabilities:             &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}},
			AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		}
		c.Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "100m", "memory", "64Mi"), Limits: quantities("cpu", "500m", "memory", "128Mi", "hugepages-2Mi", "4Mi")}
	})
	got, err := config.Container(config.ContainerInput{
		Pod: pod, Container: app(pod), RestartCount: 3,
		Node:  &config.Node{Capacity: quantities("memory", "640Mi"), HugepageSizes: []string{"1GB", "2MB"}},
		Image: config.Image{Ref: "sha256:abc", Username: "www"},
		Env:   kv("GREETING", "hi"), SupplementalGroups: []int64{500},
		Mounts:     []*runtimeapi.Mount{{ContainerPath: "/data"}},
		CDIDevices: []podsync.ExtraCDIDevice{{Name: "v.com/c=0"}, {Container: "other", Name: "v.com/c=1"}, {Container: "app", Name: "v.com/c=2"}},
		Annotations: []podsync.ExtraAnnotation{
			{Container: "app", Name: "site", Value: "x"}, {Container: "app", Name: config.AnnotationHash, Value: "0"}, {Name: "sandbox", Value: "y"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if masked := got.Linux.SecurityContext.MaskedPaths; len(masked) != 12 || masked[0] != "/proc/asound" {
		t.Errorf("masked paths %v", masked)
	}
	if ro := got.Linux.SecurityContext.ReadonlyPaths; len(ro) != 5 {
		t.Errorf("read-only paths %v", ro)
	}
	got.Linux.SecurityContext.MaskedPaths, got.Linux.SecurityContext.ReadonlyPaths = nil, nil
	diff(t, &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:abc", UserSpecifiedImage: "registry.local/app:1"},
		Command:    []string{"/bin/sh", "-c"},
		Args:       []string{"echo hi $(GREETING) $(NOBODY)"},
		WorkingDir: "/srv", Stdin: true, StdinOnce: true, Tty: true,
		Envs:       kv("GREETING", "hi"),
		Mounts:     []*runtimeapi.Mount{{ContainerPath: "/data"}},
		CDIDevices: []*runtimeapi.CDIDevice{{Name: "v.com/c=0"}, {Name: "v.com/c=2"}},
		LogPath:    "app/3.log",
		StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop",
			"io.kubernetes.pod.uid": testUID, "io.kubernetes.container.name": "app",
		},
		Annotations: map[string]string{
			"site":                                 "x",
			"io.kubernetes.container.hash":         "bdfbf89b",
			"io.kubernetes.container.restartCount": "3",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.container.preStopHandler":           `{"exec":{"command":["bye"]}}`,
			"io.kubernetes.container.ports":                    `[{"name":"http","containerPort":80,"protocol":"TCP"}]`,
			"io.kubernetes.pod.deletionGracePeriod":            "5",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{
				CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 102, MemoryLimitInBytes: 128 << 20, OomScoreAdj: 900,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 4 << 20}},
			},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"}, DropCapabilities: []string{"ALL"}},
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE},
				},
				RunAsUsername: "www", ReadonlyRootfs: true, NoNewPrivs: true,
				SupplementalGroups: []int64{2000, 7, 500},
				Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			},
		},
	}, got)
}

func TestContainerTarget(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*corev1.PodSpec)
		want runtimeapi.NamespaceMode
	}{
		{"own", func(*corev1.PodSpec) {}, runtimeapi.NamespaceMode_TARGET},
		{"shared", func(s *corev1.PodSpec) { s.ShareProcessNamespace = ptr(true) }, runtimeapi.NamespaceMode_POD},
		{"host", func(s *corev1.PodSpec) { s.HostPID = true }, runtimeapi.NamespaceMode_NODE},
	} {
		pod := newPod(func(p *corev1.Pod) { tt.edit(&p.Spec) })
		ec := &corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}
		got, err := config.Container(config.ContainerInput{Pod: pod, Container: config.Ephemeral(ec), TargetID: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		if pid := got.Linux.SecurityContext.NamespaceOptions.Pid; pid != tt.want {
			t.Errorf("%s: pid namespace %v, want %v", tt.name, pid, tt.want)
		}
	}
}

func TestContainerErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(*corev1.Pod)
		image config.Image
		want  string
	}{
		{"stop signal", func(p *corev1.Pod) { app(p).Lifecycle = &corev1.Lifecycle{StopSignal: ptr(corev1.Signal("SIGNOPE"))} }, config.Image{}, "SIGNOPE"},
		{"groups policy", func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicy("Some"))}
		}, config.Image{}, "Some"},
	} {
		pod := newPod(tt.edit)
		_, err := config.Container(config.ContainerInput{Pod: pod, Container: app(pod), Image: tt.image})
		if err == nil || !strings.Contains(err.Error(), tt.want) || podsync.ReasonOf(err) != config.ReasonConfig {
			t.Errorf("%s: %v (reason %q)", tt.name, err, podsync.ReasonOf(err))
		}
	}
}
