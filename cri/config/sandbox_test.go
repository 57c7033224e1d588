package config_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

func TestSandboxGolden(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			FSGroup: ptr(int64(2000)), SupplementalGroups: []int64{7, 8}, RunAsUser: ptr(int64(1000)), RunAsGroup: ptr(int64(1001)),
			Sysctls:                  []corev1.Sysctl{{Name: "net/core/somaxconn", Value: "100"}, {Name: "kernel.shm_rmid_forced", Value: "1"}},
			SELinuxOptions:           &corev1.SELinuxOptions{Level: "s0:c1,c2"},
			SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicyStrict),
		}
		app(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 53, Protocol: "UDP", HostIP: "10.0.0.1"}}
		app(p).Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "250m"), Limits: quantities("cpu", "1", "memory", "64Mi")}
		p.Spec.Overhead = quantities("cpu", "100m", "memory", "16Mi")
	})
	got, err := config.Sandbox(config.SandboxInput{
		Pod: pod, Attempt: 2, CgroupParent: "/kubepods/pod1", SupplementalGroups: []int64{500},
		Node: &config.Node{CgroupV2: true, CPUCFSQuotaPeriod: 10 * time.Millisecond},
		DNS:  &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}},
		Annotations: []podsync.ExtraAnnotation{
			{Name: "site", Value: "x"}, {Name: "note", Value: "stolen"}, {Container: "app", Name: "other", Value: "y"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	oom := map[string]string{"memory.oom.group": "1"}
	diff(t, &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: testUID, Attempt: 2},
		Hostname:     "web",
		LogDirectory: "/var/log/pods/shop_web_" + testUID,
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}},
		PortMappings: []*runtimeapi.PortMapping{
			{ContainerPort: 80, HostPort: 8080},
			{ContainerPort: 53, Protocol: runtimeapi.Protocol_UDP, HostIp: "10.0.0.1"},
		},
		Labels: map[string]string{
			"tier": "front", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": testUID,
		},
		Annotations: map[string]string{"note": "hello", "site": "x"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/pod1",
			Sysctls:      map[string]string{"net.core.somaxconn": "100", "kernel.shm_rmid_forced": "1"},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE},
				},
				SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0:c1,c2"},
				RunAsUser:      &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 1001},
				SupplementalGroups:       []int64{2000, 500, 7, 8},
				SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
				Seccomp:                  &runtimeapi.SecurityProfile{},
			},
			Resources: &runtimeapi.LinuxContainerResources{CpuPeriod: 10000, CpuQuota: 10000, CpuShares: 256, MemoryLimitInBytes: 64 << 20, Unified: oom},
			Overhead:  &runtimeapi.LinuxContainerResources{CpuPeriod: 10000, CpuQuota: 1000, CpuShares: 102, MemoryLimitInBytes: 16 << 20, Unified: oom},
		},
	}, got)
	if pod.Spec.SecurityContext.Sysctls[0].Name != "net/core/somaxconn" {
		t.Error("the pod's sysctls were changed")
	}
}

// The kubelet forgets the pod's namespaces when spec.securityContext is nil.
func TestSandboxNamespacesWithoutSecurityContext(t *testing.T) {
	node, podNS := runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_POD
	host := &runtimeapi.UserNamespace{Mode: node}
	for _, tt := range []struct {
		name string
		edit func(*corev1.PodSpec)
		want *runtimeapi.NamespaceOption
	}{
		{"none", func(*corev1.PodSpec) {}, &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: host}},
		{"hostNetwork", func(s *corev1.PodSpec) { s.HostNetwork = true }, &runtimeapi.NamespaceOption{Network: node, Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: host}},
		{"hostPID", func(s *corev1.PodSpec) { s.HostPID = true }, &runtimeapi.NamespaceOption{Pid: node, UsernsOptions: host}},
		{"hostIPC", func(s *corev1.PodSpec) { s.HostIPC = true }, &runtimeapi.NamespaceOption{Ipc: node, Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: host}},
		{"shared", func(s *corev1.PodSpec) { s.ShareProcessNamespace = ptr(true) }, &runtimeapi.NamespaceOption{Pid: podNS, UsernsOptions: host}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) { tt.edit(&p.Spec) })
			got, err := config.Sandbox(config.SandboxInput{Pod: pod})
			if err != nil {
				t.Fatal(err)
			}
			diff(t, tt.want, got.Linux.SecurityContext.NamespaceOptions)
			if pod.Spec.HostNetwork != (got.Hostname == "") {
				t.Errorf("host name %q with hostNetwork %v", got.Hostname, pod.Spec.HostNetwork)
			}
		})
	}
}

func TestSandboxUserNamespace(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) { p.Spec.HostUsers = ptr(false) })
	if _, err := config.Sandbox(config.SandboxInput{Pod: pod}); err == nil {
		t.Error("hostUsers false without a mapping was accepted")
	}
	userns := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}}
	got, err := config.Sandbox(config.SandboxInput{Pod: pod, UserNamespace: userns})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, userns, got.Linux.SecurityContext.NamespaceOptions.UsernsOptions)
}

// The kubelet does not map the host ports of sidecars.
func TestSandboxPortsOfInitContainers(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		app(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 80, HostPort: 80}, {ContainerPort: 81}}
		p.Spec.InitContainers = []corev1.Container{
			{Name: "side", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{ContainerPort: 9, HostPort: 9}, {ContainerPort: 10}}},
			{Name: "setup", Ports: []corev1.ContainerPort{{ContainerPort: 8888, HostPort: 80}}},
		}
	})
	got, err := config.Sandbox(config.SandboxInput{Pod: pod})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 81}, {ContainerPort: 9, HostPort: 9}}, got.PortMappings)

	app(pod).Ports[0].Protocol = "QUIC"
	if _, err := config.Sandbox(config.SandboxInput{Pod: pod}); err == nil || !strings.Contains(err.Error(), "QUIC") {
		t.Errorf("protocol QUIC: %v", err)
	}
}

func TestSandboxPrivileged(t *testing.T) {
	for _, edit := range []func(*corev1.Pod){
		func(p *corev1.Pod) { app(p).SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)} },
		func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)}}}
		},
		func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{SecurityContext: &corev1.SecurityContext{Privileged: ptr(true)}}}}
		},
	} {
		got, err := config.Sandbox(config.SandboxInput{Pod: newPod(edit)})
		if err != nil || !got.Linux.SecurityContext.Privileged {
			t.Errorf("privileged container, sandbox %v, %v", got, err)
		}
	}
}

func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 62) + "-" + strings.Repeat("b", 20)
	for _, tt := range []struct {
		name         string
		edit         func(*corev1.PodSpec)
		podName      string
		host, domain string
		sandbox      string
		wantErr      bool
	}{
		{name: "pod name", host: "web", sandbox: "web"},
		{name: "field", edit: func(s *corev1.PodSpec) { s.Hostname = "h1" }, host: "h1", sandbox: "h1"},
		{name: "bad field", edit: func(s *corev1.PodSpec) { s.Hostname = "h_1" }, wantErr: true},
		{name: "cut and trimmed", podName: long, host: strings.Repeat("a", 62), sandbox: strings.Repeat("a", 62)},
		{name: "subdomain", edit: func(s *corev1.PodSpec) { s.Subdomain = "sub" }, host: "web", domain: "sub.shop.svc.cluster.local", sandbox: "web"},
		{name: "bad subdomain", edit: func(s *corev1.PodSpec) { s.Subdomain = "a.b" }, wantErr: true},
		{name: "fqdn", edit: func(s *corev1.PodSpec) { s.Subdomain, s.SetHostnameAsFQDN = "sub", ptr(true) }, host: "web", domain: "sub.shop.svc.cluster.local", sandbox: "web.sub.shop.svc.cluster.local"},
		{name: "override", edit: func(s *corev1.PodSpec) { s.HostnameOverride, s.Subdomain = ptr("a.example.com"), "sub" }, host: "a.example.com", sandbox: "a.example.com"},
		{name: "bad override", edit: func(s *corev1.PodSpec) { s.HostnameOverride = ptr("-") }, wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod()
			if tt.edit != nil {
				tt.edit(&pod.Spec)
			}
			if tt.podName != "" {
				pod.Name = tt.podName
			}
			node := &config.Node{ClusterDomain: "cluster.local"}
			host, domain, err := config.Hostname(pod, node)
			if host != tt.host || domain != tt.domain || (err != nil) != tt.wantErr {
				t.Fatalf("got %q, %q, %v", host, domain, err)
			}
			if tt.wantErr {
				return
			}
			sb, err := config.Sandbox(config.SandboxInput{Pod: pod, Node: node})
			if err != nil || sb.Hostname != tt.sandbox {
				t.Errorf("sandbox host name %q, %v; want %q", sb.GetHostname(), err, tt.sandbox)
			}
		})
	}
	pod := newPod(func(p *corev1.Pod) {
		p.Name, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("a", 40), "sub", ptr(true)
	})
	if _, err := config.Sandbox(config.SandboxInput{Pod: pod, Node: &config.Node{ClusterDomain: "cluster.local"}}); err == nil {
		t.Error("a full name of more than 64 characters was accepted")
	}
}
