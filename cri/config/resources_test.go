package config_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
)

func resourcesOf(t *testing.T, pod *corev1.Pod, c *corev1.Container, node *config.Node, exclusive bool) *runtimeapi.LinuxContainerResources {
	t.Helper()
	got, err := config.Container(config.ContainerInput{Pod: pod, Container: c, Node: node, ExclusiveCPUs: exclusive})
	if err != nil {
		t.Fatal(err)
	}
	return got.Linux.Resources
}

func TestCPUAndMemory(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		requests, limits        corev1.ResourceList
		podLimits               corev1.ResourceList
		node                    config.Node
		exclusive               bool
		shares, quota, mem, per int64
	}{
		{name: "nothing", shares: 2, per: 100000},
		{name: "request", requests: quantities("cpu", "250m"), shares: 256, per: 100000},
		{name: "limit stands in", limits: quantities("cpu", "2", "memory", "1Gi"), shares: 2048, quota: 200000, mem: 1 << 30, per: 100000},
		{name: "request 0 is a request", requests: quantities("cpu", "0"), limits: quantities("cpu", "2"), shares: 2, quota: 200000, per: 100000},
		{name: "tiny", limits: quantities("cpu", "1m"), shares: 2, quota: 1000, per: 100000},
		{name: "huge", limits: quantities("cpu", "9000P"), shares: 262144, quota: 1 << 30 * 100, per: 100000},
		{name: "beyond int64", limits: quantities("cpu", "900E", "memory", "900E"), shares: 262144, quota: 1 << 30 * 100, mem: 1<<63 - 1, per: 100000},
		{name: "pod level", podLimits: quantities("cpu", "1", "memory", "64Mi"), shares: 1024, quota: 100000, mem: 64 << 20, per: 100000},
		{name: "own over pod level", limits: quantities("memory", "1Mi"), podLimits: quantities("memory", "64Mi"), shares: 2, mem: 1 << 20, per: 100000},
		{name: "no quota", limits: quantities("cpu", "2"), node: config.Node{NoCPUCFSQuota: true}, shares: 2048},
		{name: "exclusive", limits: quantities("cpu", "2"), exclusive: true, shares: 2048, quota: -1, per: 100000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				app(p).Resources = corev1.ResourceRequirements{Requests: tt.requests, Limits: tt.limits}
				if tt.podLimits != nil {
					p.Spec.Resources = &corev1.ResourceRequirements{Limits: tt.podLimits}
				}
			})
			r := resourcesOf(t, pod, app(pod), &tt.node, tt.exclusive)
			if r.CpuShares != tt.shares || r.CpuQuota != tt.quota || r.MemoryLimitInBytes != tt.mem || r.CpuPeriod != tt.per {
				t.Errorf("shares %d, quota %d, memory %d, period %d", r.CpuShares, r.CpuQuota, r.MemoryLimitInBytes, r.CpuPeriod)
			}
		})
	}
}

func TestOOMScore(t *testing.T) {
	node := &config.Node{Capacity: quantities("memory", "10Gi")}
	burstable := func(mem string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { app(p).Resources.Requests = quantities("memory", mem) }
	}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Pod)
		node *config.Node
		side bool
		want int64
	}{
		{name: "best effort", edit: func(*corev1.Pod) {}, want: 1000},
		{name: "status says otherwise", edit: func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSGuaranteed }, want: 1000},
		{name: "guaranteed", edit: func(p *corev1.Pod) {
			l := quantities("cpu", "1", "memory", "1Gi")
			app(p).Resources = corev1.ResourceRequirements{Requests: l, Limits: l}
		}, want: -997},
		{name: "memory alone is burstable", edit: func(p *corev1.Pod) {
			l := quantities("memory", "1Gi")
			app(p).Resources = corev1.ResourceRequirements{Requests: l, Limits: l}
		}, want: 900},
		{name: "tenth", edit: burstable("1Gi"), want: 900},
		{name: "one byte", edit: burstable("1"), want: 999},
		{name: "everything", edit: burstable("10Gi"), want: 3},
		{name: "more than there is", edit: burstable("900E"), want: 3},
		{name: "node of unknown size", edit: burstable("1Gi"), node: &config.Node{}, want: 999},
		{name: "node critical", edit: func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Spec.Priority = "system-node-critical", ptr(int32(2000001000))
		}, want: -997},
		{name: "class without priority", edit: func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, want: 1000},
		{name: "static critical", edit: func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Annotations["kubernetes.io/config.source"] = "system-node-critical", "file"
		}, want: -997},
		{name: "sidecar takes the app's", side: true, edit: func(p *corev1.Pod) {
			app(p).Resources.Requests = quantities("memory", "2Gi")
			p.Spec.InitContainers[0].Resources.Requests = quantities("memory", "1Gi")
		}, want: 800},
		{name: "sidecar keeps its own", side: true, edit: func(p *corev1.Pod) {
			app(p).Resources.Requests = quantities("memory", "1Gi")
			p.Spec.InitContainers[0].Resources.Requests = quantities("memory", "3Gi")
		}, want: 700},
		{name: "pod level", edit: func(p *corev1.Pod) {
			app(p).Resources.Requests = quantities("memory", "1Gi")
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities("memory", "3Gi")}
		}, want: 800}, // the other 2Gi are spread over two containers
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				if tt.side || tt.name == "pod level" {
					p.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)}}
				}
			}, tt.edit)
			c := app(pod)
			if tt.side {
				c = &pod.Spec.InitContainers[0]
			}
			n := tt.node
			if n == nil {
				n = node
			}
			if got := resourcesOf(t, pod, c, n, false).OomScoreAdj; got != tt.want {
				t.Errorf("score %d, want %d", got, tt.want)
			}
		})
	}
}

func TestSwap(t *testing.T) {
	base := config.Node{CgroupV2: true, SwapAccounting: true, Swap: config.SwapLimited, SwapCapacity: 1 << 30, Capacity: quantities("memory", "10Gi")}
	burstable := func(p *corev1.Pod) { app(p).Resources.Requests = quantities("memory", "1Gi") }
	for _, tt := range []struct {
		name string
		node func(*config.Node)
		edit func(*corev1.Pod)
		want string
	}{
		{"limited", func(*config.Node) {}, burstable, "107374182"},
		{"none", func(n *config.Node) { n.Swap = "" }, burstable, "0"},
		{"best effort", func(*config.Node) {}, func(*corev1.Pod) {}, "0"},
		{"critical", func(*config.Node) {}, func(p *corev1.Pod) { burstable(p); p.Spec.Priority = ptr(int32(2000000000)) }, "0"},
		{"no controller", func(n *config.Node) { n.SwapAccounting = false }, burstable, ""},
	} {
		n := base
		tt.node(&n)
		pod := newPod(tt.edit)
		if got := resourcesOf(t, pod, app(pod), &n, false).Unified["memory.swap.max"]; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	n := base
	n.CgroupV2 = false
	pod := newPod(func(p *corev1.Pod) { app(p).Resources.Limits = quantities("memory", "1Gi") })
	if r := resourcesOf(t, pod, app(pod), &n, false); r.MemorySwapLimitInBytes != 1<<30 || r.Unified != nil {
		t.Errorf("v1: %v", r)
	}
}

func TestHugepages(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		app(p).Resources.Limits = quantities("hugepages-2Mi", "4Mi", "hugepages-1Gi", "2Gi", "hugepages-x", "1")
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: quantities("hugepages-2Mi", "6Mi", "hugepages-64Ki", "64Ki")}
	})
	for _, tt := range []struct {
		sizes []string
		want  []*runtimeapi.HugepageLimit
	}{
		{nil, []*runtimeapi.HugepageLimit{{PageSize: "1GB", Limit: 2 << 30}, {PageSize: "2MB", Limit: 4 << 20}, {PageSize: "64KB", Limit: 64 << 10}}},
		{[]string{"2MB", "512MB"}, []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 4 << 20}, {PageSize: "512MB"}}},
	} {
		diff(t, tt.want, resourcesOf(t, pod, app(pod), &config.Node{HugepageSizes: tt.sizes}, false).HugepageLimits)
	}
}
