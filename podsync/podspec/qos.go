package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOS returns the pod's quality-of-service class: the one in its status if
// there is one (the class of a pod never changes), else computed from CPU and
// memory as the kubelet does. Guaranteed is a pod where every container, init
// containers included, limits both and asks for as much as it limits; one that
// asks for nothing and limits nothing is BestEffort; the rest is Burstable. If
// the pod has pod-level resources, they alone decide. The pod must be defaulted,
// so that requests follow limits.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	switch c := pod.Status.QOSClass; c {
	case corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort:
		return c
	}
	t := qosTotals{complete: true}
	if r := pod.Spec.Resources; r != nil {
		t.add(r)
	} else {
		for i := range pod.Spec.InitContainers {
			t.add(&pod.Spec.InitContainers[i].Resources)
		}
		for i := range pod.Spec.Containers {
			t.add(&pod.Spec.Containers[i].Resources)
		}
	}
	switch {
	case !t.any:
		return corev1.PodQOSBestEffort
	case t.complete && t.cpu.balanced() && t.memory.balanced():
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

type qosTotals struct {
	cpu, memory qosPair
	// any: something is requested or limited; complete: everyone limits both.
	any, complete bool
}

type qosPair struct {
	request, limit resource.Quantity
	requested      bool
}

// balanced tells whether as much is asked for as is limited. Something limited
// but not asked for is possible only before defaulting.
func (p *qosPair) balanced() bool { return p.requested && p.request.Cmp(p.limit) == 0 }

func (t *qosTotals) add(r *corev1.ResourceRequirements) {
	limited := t.addOne(&t.cpu, r, corev1.ResourceCPU)
	limited = t.addOne(&t.memory, r, corev1.ResourceMemory) && limited
	t.complete = t.complete && limited
}

func (t *qosTotals) addOne(p *qosPair, r *corev1.ResourceRequirements, name corev1.ResourceName) (limited bool) {
	if q, ok := r.Requests[name]; ok && q.Sign() > 0 {
		p.request.Add(q)
		p.requested, t.any = true, true
	}
	if q, ok := r.Limits[name]; ok && q.Sign() > 0 {
		p.limit.Add(q)
		limited, t.any = true, true
	}
	return limited
}
