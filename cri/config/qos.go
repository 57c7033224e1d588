package config

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// qosClass returns a pod's quality-of-service class. It is worked out from the
// spec, never taken from the status, which a manifest can set to anything.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	var t qosTally
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		t.add(pod.Spec.Resources)
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
	case t.unequal:
		return corev1.PodQOSBurstable
	default:
		return corev1.PodQOSGuaranteed
	}
}

// qosTally is what the class depends on. The kubelet compares sums; since a
// request never exceeds its limit, the sums are equal just when each pair is.
type qosTally struct{ any, unequal bool }

func (t *qosTally) add(r *corev1.ResourceRequirements) {
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		hasRequest, hasLimit := request.Sign() > 0, limit.Sign() > 0
		t.any = t.any || hasRequest || hasLimit
		// A missing request is defaulted to the limit by the API server; a spec
		// that was not is Burstable there too.
		if !hasLimit || !hasRequest || request.Cmp(limit) != 0 {
			t.unequal = true
		}
	}
}
