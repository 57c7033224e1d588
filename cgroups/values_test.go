package cgroups_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cgroups"
)

func TestCase_CGR_01_Weights(t *testing.T) {
	shares := []uint64{2, 3, 10, 102, 256, 512, 1024, 2048, 4096, 262143, 262144}
	for _, tt := range []struct {
		name   string
		weight cgroups.WeightFunc
		want   []uint64
	}{
		{"linear", cgroups.LinearWeight, []uint64{1, 1, 1, 4, 10, 20, 39, 79, 157, 9999, 10000}},
		{"quadratic", cgroups.QuadraticWeight, []uint64{1, 2, 4, 17, 35, 59, 100, 174, 303, 10000, 10000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []uint64
			for _, s := range shares {
				got = append(got, tt.weight(s))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("weights of %v (-want +got):\n%s", shares, d)
			}
		})
	}
}

func TestWeightProperties(t *testing.T) {
	for _, w := range []cgroups.WeightFunc{cgroups.LinearWeight, cgroups.QuadraticWeight} {
		rapid.Check(t, func(rt *rapid.T) {
			a, b := rapid.Uint64().Draw(rt, "a"), rapid.Uint64().Draw(rt, "b")
			if a > b {
				a, b = b, a
			}
			if w(a) > w(b) || w(a) < 1 || w(b) > 10000 {
				rt.Fatalf("weights of %d and %d: %d and %d", a, b, w(a), w(b))
			}
		})
	}
}

func TestCase_CGR_03_SmallLimits(t *testing.T) {
	for _, tt := range []struct {
		milli  int64
		quota  int64
		shares uint64
	}{
		{1, 1000, 2}, {2, 1000, 2}, {5, 1000, 5}, {9, 1000, 9}, {10, 1000, 10}, {11, 1100, 11}, {51, 5100, 52}, {100, 10000, 102},
		{0, cgroups.Unlimited, 2}, {-5, cgroups.Unlimited, 2}, {1000, 100000, 1024}, {1 << 62, (1 << 40) * 100, 262144},
	} {
		if got := cgroups.Quota(tt.milli, 100*time.Millisecond); got != tt.quota {
			t.Errorf("Quota(%dm) = %d, want %d", tt.milli, got, tt.quota)
		}
		if got := cgroups.Shares(tt.milli); got != tt.shares {
			t.Errorf("Shares(%dm) = %d, want %d", tt.milli, got, tt.shares)
		}
	}
}

func TestForPod(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values cgroups.Values
		pod    *corev1.Pod
		want   cgroups.Resources
	}{
		{
			name: "best effort", pod: pod("a", ctr("c", nil, nil)),
			want: cgroups.Resources{CPUShares: 2, CPUQuota: -1, CPUPeriod: 100000, Memory: -1, Pids: -1},
		},
		{
			name: "guaranteed", pod: pod("a", ctr("c", list("500m", "64Mi"), list("500m", "64Mi"))),
			want: cgroups.Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, Memory: 64 << 20, Pids: -1},
		},
		{
			name: "burstable, all limited", pod: pod("a", ctr("c", list("100m", "32Mi"), list("200m", "64Mi")), ctr("d", list("100m", "32Mi"), list("300m", "64Mi"))),
			want: cgroups.Resources{CPUShares: 204, CPUQuota: 50000, CPUPeriod: 100000, Memory: 128 << 20, Pids: -1},
		},
		{
			name: "burstable, one has no CPU limit", pod: pod("a", ctr("c", list("100m", "32Mi"), list("200m", "64Mi")), ctr("d", list("100m", "32Mi"), list("", "64Mi"))),
			want: cgroups.Resources{CPUShares: 204, CPUQuota: -1, CPUPeriod: 100000, Memory: 128 << 20, Pids: -1},
		},
		{
			name: "burstable, an init container has no limits",
			pod:  withInit(pod("a", ctr("c", list("100m", "32Mi"), list("200m", "64Mi"))), ctr("i", nil, nil)),
			want: cgroups.Resources{CPUShares: 102, CPUQuota: -1, CPUPeriod: 100000, Memory: -1, Pids: -1},
		},
		{
			name: "an init container asks for more", pod: withInit(pod("a", ctr("c", list("100m", "32Mi"), list("100m", "32Mi"))), ctr("i", list("1", "1Gi"), list("1", "1Gi"))),
			want: cgroups.Resources{CPUShares: 1024, CPUQuota: 100000, CPUPeriod: 100000, Memory: 1 << 30, Pids: -1},
		},
		{
			name: "pod level", pod: podLevel(pod("a", ctr("c", nil, nil)), list("250m", "10Mi"), list("500m", "20Mi")),
			want: cgroups.Resources{CPUShares: 256, CPUQuota: 50000, CPUPeriod: 100000, Memory: 20 << 20, Pids: -1},
		},
		{
			name: "overhead", pod: overhead(pod("a", ctr("c", list("100m", "32Mi"), list("100m", "32Mi"))), list("100m", "32Mi")),
			want: cgroups.Resources{CPUShares: 204, CPUQuota: 20000, CPUPeriod: 100000, Memory: 64 << 20, Pids: -1},
		},
		{
			name:   "node settings",
			values: cgroups.Values{NoCPUQuota: true, CPUPeriod: 10 * time.Millisecond, PidsLimit: 100},
			pod:    pod("a", ctr("c", list("500m", "64Mi"), list("500m", "64Mi"))),
			want:   cgroups.Resources{CPUShares: 512, CPUQuota: -1, CPUPeriod: 10000, Memory: 64 << 20, Pids: 100},
		},
		{
			name:   "huge pages",
			values: cgroups.Values{HugePageSizes: []string{"2MB", "1GB"}},
			pod:    pod("a", ctr("c", hugeList("100m", "32Mi", "4Mi"), hugeList("100m", "32Mi", "4Mi"))),
			want: cgroups.Resources{CPUShares: 102, CPUQuota: 10000, CPUPeriod: 100000, Memory: 32 << 20, Pids: -1,
				Hugepages: []cgroups.HugepageLimit{{Size: "2MB", Bytes: 4 << 20}, {Size: "1GB"}}},
		},
		{
			name: "the class in the status wins", pod: class(pod("a", ctr("c", list("100m", ""), list("100m", ""))), corev1.PodQOSBestEffort),
			want: cgroups.Resources{CPUShares: 2, CPUQuota: -1, CPUPeriod: 100000, Memory: -1, Pids: -1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, tt.values.ForPod(tt.pod)); d != "" {
				t.Errorf("values (-want +got):\n%s", d)
			}
		})
	}
}

// Whatever quantities a manifest holds, the values are such that the kernel
// could take them.
func TestForPodProperties(t *testing.T) {
	quantity := rapid.Custom(func(rt *rapid.T) string {
		return rapid.StringMatching(`[0-9]{1,19}(m|k|Ki|Gi|E|Ei)?`).Draw(rt, "q")
	})
	rapid.Check(t, func(rt *rapid.T) {
		p := pod("a")
		for range rapid.IntRange(0, 4).Draw(rt, "n") {
			p.Spec.Containers = append(p.Spec.Containers, ctr("c",
				list(quantity.Draw(rt, "rc"), quantity.Draw(rt, "rm")), list(quantity.Draw(rt, "lc"), quantity.Draw(rt, "lm"))))
		}
		r := cgroups.Values{}.ForPod(p)
		if r.CPUShares < 2 || r.CPUShares > 262144 {
			rt.Fatalf("shares %d", r.CPUShares)
		}
		if r.CPUQuota != -1 && r.CPUQuota < 1000 {
			rt.Fatalf("quota %d", r.CPUQuota)
		}
		if r.Memory != -1 && r.Memory <= 0 {
			rt.Fatalf("memory %d", r.Memory)
		}
	})
}

func pod(uid types.UID, cs ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec:       corev1.PodSpec{Containers: cs},
	}
}

func ctr(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func hugeList(cpu, memory, pages string) corev1.ResourceList {
	l := list(cpu, memory)
	l["hugepages-2Mi"] = resource.MustParse(pages)
	return l
}

func withInit(p *corev1.Pod, cs ...corev1.Container) *corev1.Pod {
	p.Spec.InitContainers = cs
	return p
}

func podLevel(p *corev1.Pod, requests, limits corev1.ResourceList) *corev1.Pod {
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return p
}

func overhead(p *corev1.Pod, l corev1.ResourceList) *corev1.Pod {
	p.Spec.Overhead = l
	return p
}

func class(p *corev1.Pod, q corev1.PodQOSClass) *corev1.Pod {
	p.Status.QOSClass = q
	return p
}
