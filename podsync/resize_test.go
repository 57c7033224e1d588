package podsync_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// amounts makes the resources of "cpu request/cpu limit/memory request/memory
// limit"; "-" is none.
func amounts(s string) corev1.ResourceRequirements {
	var cr, cl, mr, ml string
	fmt.Sscanf(s, "%s %s %s %s", &cr, &cl, &mr, &ml)
	list := func(cpu, mem string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for n, v := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: mem} {
			if v != "-" {
				l[n] = resource.MustParse(v)
			}
		}
		return l
	}
	return corev1.ResourceRequirements{Requests: list(cr, mr), Limits: list(cl, ml)}
}

func show(r corev1.ResourceRequirements) string {
	v := func(l corev1.ResourceList, n corev1.ResourceName) string {
		if q, ok := l[n]; ok {
			return q.String()
		}
		return "-"
	}
	return fmt.Sprintf("%s %s %s %s", v(r.Requests, corev1.ResourceCPU), v(r.Limits, corev1.ResourceCPU), v(r.Requests, corev1.ResourceMemory), v(r.Limits, corev1.ResourceMemory))
}

// sizedPod has containers a, b, … of the resources.
func sizedPod(rs ...string) *corev1.Pod {
	p := &corev1.Pod{}
	for i, r := range rs {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Resources: amounts(r)})
	}
	return p
}

// runs is what the runtime holds: containers a, b, … with the resources.
func runs(rs ...string) *podsync.RuntimePod {
	rt := &podsync.RuntimePod{Sandboxes: []*podsync.RuntimeSandbox{{ID: "box", Ready: true}}}
	for i, r := range rs {
		res := amounts(r)
		rt.Containers = append(rt.Containers, &podsync.RuntimeContainer{ID: fmt.Sprint(i), Name: string(rune('a' + i)), State: podsync.ContainerRunning, Actuated: &res})
	}
	return rt
}

func TestEnvelope(t *testing.T) {
	for _, tt := range []struct{ name, pod, has, want string }{
		{"grows", "2 4 2Mi 4Mi", "1 2 1Mi 2Mi", "2 4 2Mi 4Mi"},
		{"shrinks", "1 2 1Mi 2Mi", "2 4 2Mi 4Mi", "2 4 2Mi 4Mi"},
		{"one up, one down", "1 4 1Mi 4Mi", "1 2 1Mi 8Mi", "1 4 1Mi 8Mi"},
		{"a limit added", "1 2 1Mi 2Mi", "1 - 1Mi -", "1 - 1Mi -"},
		{"a limit removed", "1 - 1Mi -", "1 2 1Mi 2Mi", "1 - 1Mi -"},
		{"would look Guaranteed", "2 2 1Mi 2Mi", "1 2 2Mi 2Mi", "2 2 1Mi 2Mi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := sizedPod(tt.pod)
			got := podsync.Envelope(pod, runs(tt.has))
			if d := cmp.Diff(tt.want, show(got.Spec.Containers[0].Resources)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if d := cmp.Diff(tt.pod, show(pod.Spec.Containers[0].Resources)); d != "" {
				t.Errorf("the pod was changed: %s", d)
			}
		})
	}
	pod := sizedPod("1 2 1Mi 2Mi")
	same := []*podsync.RuntimePod{nil, {}, runs("1 2 1Mi 2Mi")}
	for i, rt := range same {
		if podsync.Envelope(pod, rt) != pod {
			t.Errorf("%d: no difference, and another pod", i)
		}
	}
}

// TestEnvelopeHoldsBoth: whatever is and is to be, the envelope is no smaller in
// any limit than either, and of the same class.
func TestEnvelopeHoldsBoth(t *testing.T) {
	amount := rapid.SampledFrom([]string{"-", "1", "2", "3"})
	rapid.Check(t, func(t *rapid.T) {
		one := func(label string) string {
			mem := fmt.Sprintf("%dMi %dMi", rapid.IntRange(1, 3).Draw(t, label), rapid.IntRange(3, 6).Draw(t, label))
			return fmt.Sprintf("%s %s %s", amount.Draw(t, label), amount.Draw(t, label), mem)
		}
		is, has := one("pod"), one("has")
		pod := sizedPod(is)
		// No API server takes a request above its limit, and no resize changes the class.
		if tooMuch(is) || tooMuch(has) || podspec.QOS(sizedPod(has)) != podspec.QOS(pod) {
			return
		}
		got := podsync.Envelope(pod, runs(has))
		if podspec.QOS(got) != podspec.QOS(pod) {
			t.Fatalf("%q around %q is of another class: %q", is, has, show(got.Spec.Containers[0].Resources))
		}
		for _, r := range []string{is, has} {
			in := amounts(r)
			for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, ok := got.Spec.Containers[0].Resources.Limits[n]
				l, bounded := in.Limits[n]
				if ok && (!bounded || limit.Cmp(l) < 0) {
					t.Fatalf("%q around %q has the limit %s of %s", is, has, limit.String(), n)
				}
			}
		}
	})
}

// tooMuch tells whether a request is above its limit.
func tooMuch(s string) bool {
	r := amounts(s)
	for n, limit := range r.Limits {
		if request, ok := r.Requests[n]; ok && request.Cmp(limit) > 0 {
			return true
		}
	}
	return false
}

func TestWithResources(t *testing.T) {
	want, given := sizedPod("2 4 2Mi 4Mi", "1 1 1Mi 1Mi"), sizedPod("1 2 1Mi 2Mi")
	got := podsync.WithResources(want, given)
	if a, b := show(got.Spec.Containers[0].Resources), show(got.Spec.Containers[1].Resources); a != "1 2 1Mi 2Mi" || b != "1 1 1Mi 1Mi" {
		t.Errorf("got %q and %q: want what was given, and what is new", a, b)
	}
	if podsync.WithResources(want, want) != want {
		t.Error("the same resources give another pod")
	}
	level := amounts("1 2 1Mi 2Mi")
	given.Spec.Resources = &level
	if got := podsync.WithResources(want, given); got.Spec.Resources == nil || show(*got.Spec.Resources) != "1 2 1Mi 2Mi" {
		t.Errorf("pod-level resources %v, want those given", got.Spec.Resources)
	}
}

func TestResourceShrinks(t *testing.T) {
	for _, tt := range []struct {
		want, have string
		shrinks    bool
	}{
		{"1 2 - -", "2 4 - -", true},
		{"1 2 - -", "1 2 - -", false},
		{"2 2 - -", "1 4 - -", false},
		{"1 2 - -", "1 - - -", true},
		{"1 - - -", "1 2 - -", false},
	} {
		w, h := amounts(tt.want), amounts(tt.have)
		if got := podsync.ResourceShrinks(&w, &h, corev1.ResourceCPU); got != tt.shrinks {
			t.Errorf("from %q to %q shrinks: %v, want %v", tt.have, tt.want, got, tt.shrinks)
		}
	}
}

func TestReportedResources(t *testing.T) {
	for _, tt := range []struct {
		name, has string
		l         podsync.RuntimeResources
		want      string
	}{
		{"nothing reported", "100m 200m 1Mi 2Mi", podsync.RuntimeResources{}, "100m 200m 1Mi 2Mi"},
		{"rounded", "100m 200m 1Mi 2Mi", podsync.RuntimeResources{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, MemoryLimit: 2 << 20}, "100m 200m 1Mi 2Mi"},
		{"other", "100m 200m 1Mi 2Mi", podsync.RuntimeResources{CPUShares: 512, CPUQuota: 25000, MemoryLimit: 4 << 20}, "500m 250m 1Mi 4Mi"},
		{"too small to tell", "1m 5m - -", podsync.RuntimeResources{CPUShares: 2, CPUQuota: 1000}, "1m 5m - -"},
		{"nothing is added", "- - - -", podsync.RuntimeResources{CPUShares: 512, CPUQuota: 25000, MemoryLimit: 4 << 20}, "- - - -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := amounts(tt.has)
			podsync.ReportedResources(&r, &tt.l)
			if d := cmp.Diff(tt.want, show(r)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
