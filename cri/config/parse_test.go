package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

func labels(edit ...string) map[string]string {
	m := map[string]string{config.LabelPodUID: testUID, config.LabelPodName: "web", config.LabelPodNamespace: "shop", config.LabelContainerName: "app"}
	for i := 0; i < len(edit); i += 2 {
		m[edit[i]] = edit[i+1]
	}
	return m
}

func TestCase_CGR_07_HostileIdentity(t *testing.T) {
	for _, tt := range []struct {
		label, value string
		ok           bool
	}{
		{config.LabelPodUID, "8f6a44fc62e8cb075753c843896568ca", true},
		{config.LabelPodUID, "a_b", false}, {config.LabelPodUID, "a/b", false}, {config.LabelPodUID, "", false}, {config.LabelPodUID, "..", false},
		{config.LabelPodUID, "../../../tmp/x", false}, {config.LabelPodUID, "-x", false}, {config.LabelPodUID, "a\x00", false}, {config.LabelPodUID, strings.Repeat("a", 129), false},
		{config.LabelPodName, "a.b-c", true}, {config.LabelPodName, "../../etc", false}, {config.LabelPodName, "", false}, {config.LabelPodName, "Web", false}, {config.LabelPodName, "a..b", false},
		{config.LabelPodNamespace, "../x", false}, {config.LabelPodNamespace, "", false}, {config.LabelPodNamespace, strings.Repeat("n", 64), false},
		{config.LabelContainerName, "../c", false}, {config.LabelContainerName, "", false},
	} {
		c := &runtimeapi.Container{Id: "c1", Labels: labels(tt.label, tt.value)}
		_, got, err := config.ParseContainer(c)
		var ie *config.IdentityError
		if (err == nil) != tt.ok || (!tt.ok && (!errors.As(err, &ie) || ie.Label != tt.label || got != nil)) {
			t.Errorf("%s %q: %v, %v", tt.label, tt.value, got, err)
		}
	}
	for _, c := range []*runtimeapi.Container{nil, {}} {
		if _, _, err := config.ParseContainer(c); err == nil {
			t.Error("a container with no labels was accepted")
		}
	}
	if _, _, err := config.ParseContainerStatus("s", nil); err == nil {
		t.Error("a nil status was accepted")
	}
	id, err := config.ParseIdentity(map[string]string{config.LabelPodUID: "u1", config.LabelPodName: "p", config.LabelPodNamespace: "n"})
	if err != nil || id != (config.Identity{UID: "u1", Name: "p", Namespace: "n"}) {
		t.Errorf("sandbox: %v, %v", id, err)
	}
}

// What Container writes, ParseContainerStatus and RebuildPod read.
func TestRoundTrip(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		p.DeletionGracePeriodSeconds = ptr(int64(9))
		app(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: "TCP"}}
		app(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
		p.Spec.HostNetwork = true
	})
	cfg, err := config.Container(config.ContainerInput{Pod: pod, Container: app(pod), RestartCount: 4})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := config.Sandbox(config.SandboxInput{Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	status := &runtimeapi.ContainerStatus{
		Id: "c1", Metadata: &runtimeapi.ContainerMetadata{Attempt: 4}, State: runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt: 1e9, StartedAt: 2e9, FinishedAt: 3e9, ExitCode: 7, Reason: "Error", Message: "m",
		Image: &runtimeapi.ImageSpec{Image: "registry.local/app:1"}, ImageRef: "registry.local/app@sha256:0",
		Labels: cfg.Labels, Annotations: cfg.Annotations, LogPath: "/l", Mounts: cfg.Mounts,
	}
	id, got, err := config.ParseContainerStatus("s1", status)
	if err != nil {
		t.Fatal(err)
	}
	want := &podsync.RuntimeContainer{
		ID: "c1", Name: "app", Attempt: 4, RestartCount: 4, SandboxID: "s1", State: podsync.ContainerExited,
		CreatedAt: time.Unix(1, 0), StartedAt: time.Unix(2, 0), FinishedAt: time.Unix(3, 0), ExitCode: 7, Reason: "Error", Message: "m",
		Image: "registry.local/app:1", ImageRef: "registry.local/app@sha256:0", Hash: config.Hash(app(pod)), HashKnown: true,
		Labels: cfg.Labels, Annotations: cfg.Annotations, LogPath: "/l",
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	rp := config.NewRuntimePod(id, []*podsync.RuntimeSandbox{config.ParseSandboxStatus(&runtimeapi.PodSandboxStatus{
		Labels: sb.Labels, Annotations: sb.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: sb.Linux.SecurityContext.NamespaceOptions}},
	})}, []*podsync.RuntimeContainer{got}, time.Unix(9, 0))
	if d := cmp.Diff(pod, config.RebuildPod(rp)); d != "" {
		t.Error(d)
	}
}

func TestParseToleratesWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name        string
		annotations map[string]string
		restarts    int
		hash        uint64
		known       bool
	}{
		{"none", nil, 2, 0, false},
		{"junk", map[string]string{config.AnnotationHash: "xyz", config.AnnotationRestartCount: "many"}, 2, 0, false},
		{"negative", map[string]string{config.AnnotationHash: "-1", config.AnnotationRestartCount: "-3"}, 2, 0, false},
		{"zero hash", map[string]string{config.AnnotationHash: "0", config.AnnotationRestartCount: "5"}, 5, 0, false},
		{"overflow", map[string]string{config.AnnotationHash: "ff", config.AnnotationRestartCount: "99999999999"}, 2, 255, true},
	} {
		_, got, err := config.ParseContainer(&runtimeapi.Container{
			Id: "c", Labels: labels(), Annotations: tt.annotations, Metadata: &runtimeapi.ContainerMetadata{Attempt: 2}, CreatedAt: -6795364578871345152,
		})
		if err != nil || got.RestartCount != tt.restarts || got.Hash != tt.hash || got.HashKnown != tt.known || !got.CreatedAt.IsZero() {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	_, got, err := config.ParseContainerStatus("s", &runtimeapi.ContainerStatus{
		Labels: labels(), State: runtimeapi.ContainerState_CONTAINER_RUNNING, StartedAt: 1, FinishedAt: 1, ExitCode: 3,
	})
	if err != nil || !got.FinishedAt.IsZero() || got.ExitCode != 0 || got.StartedAt.IsZero() {
		t.Errorf("running: %+v, %v", got, err)
	}
}

func TestNewRuntimePod(t *testing.T) {
	ready, notReady := runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	net := func(ip string, more ...string) *runtimeapi.PodSandboxNetworkStatus {
		n := &runtimeapi.PodSandboxNetworkStatus{Ip: ip}
		for _, m := range more {
			n.AdditionalIps = append(n.AdditionalIps, &runtimeapi.PodIP{Ip: m})
		}
		return n
	}
	var sandboxes []*podsync.RuntimeSandbox
	for _, s := range []*runtimeapi.PodSandboxStatus{
		{Id: "old", CreatedAt: 1, State: ready, Network: net("10.0.0.1")},
		{Id: "new", CreatedAt: 3, State: notReady, Network: net("10.0.0.3")},
		{Id: "mid", CreatedAt: 2, State: ready, Network: net("10.0.0.2", "fd00::2", "junk", "")},
	} {
		sandboxes = append(sandboxes, config.ParseSandboxStatus(s))
	}
	containers := []*podsync.RuntimeContainer{{ID: "b", CreatedAt: time.Unix(1, 0)}, {ID: "a", CreatedAt: time.Unix(1, 0)}, {ID: "c", CreatedAt: time.Unix(2, 0)}}
	p := config.NewRuntimePod(config.Identity{UID: "u"}, sandboxes, containers, time.Unix(9, 0))
	var ids []string
	for _, s := range p.Sandboxes {
		ids = append(ids, s.ID)
	}
	for _, c := range p.Containers {
		ids = append(ids, c.ID)
	}
	if d := cmp.Diff([]string{"new", "mid", "old", "c", "a", "b"}, ids); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"10.0.0.2", "fd00::2"}, p.IPs); d != "" {
		t.Error(d)
	}
	if sandboxes[0].ID != "old" || containers[0].ID != "b" {
		t.Error("the input was changed")
	}
	s := config.ParseSandbox(&runtimeapi.PodSandbox{Id: "s", State: notReady, CreatedAt: 5, Labels: labels(), RuntimeHandler: "kata"})
	if d := cmp.Diff(&podsync.RuntimeSandbox{ID: "s", CreatedAt: time.Unix(0, 5), Labels: labels(), Handler: "kata"}, s); d != "" {
		t.Error(d)
	}
}

func TestRebuildPod(t *testing.T) {
	if got := config.RebuildPod(nil); got != nil {
		t.Errorf("got %v", got)
	}
	bad := map[string]string{
		config.AnnotationPorts: "{", config.AnnotationPreStopHandler: "[]", config.AnnotationDeletionGracePeriod: "soon", config.AnnotationTerminationGracePeriod: "-4",
	}
	got := config.RebuildPod(&podsync.RuntimePod{
		UID: "u", Name: "p", Namespace: "n",
		Containers: []*podsync.RuntimeContainer{
			{Name: "b", Image: "new", Annotations: bad}, {Name: "a", Annotations: map[string]string{config.AnnotationTerminationGracePeriod: "7"}}, {Name: "b", Image: "old"},
		},
	})
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "n"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr(int64(7)), Containers: []corev1.Container{{Name: "a"}, {Name: "b", Image: "new"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
