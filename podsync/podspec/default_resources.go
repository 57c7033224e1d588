package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// defaultPodResources completes pod-level resources the way the API server
// does: huge-page limits from the containers, then for each supported resource
// that has no pod-level request the containers' sum where they ask for it, else
// the pod-level limit. A pod that limits nothing as a whole is left as it is.
func defaultPodResources(s *corev1.PodSpec) {
	r := s.Resources
	if r == nil {
		return
	}
	roundUp(r.Limits)
	roundUp(r.Requests)
	if len(r.Limits)+len(r.Requests) == 0 || podLevelComplete(s) {
		return
	}
	pod := &corev1.Pod{Spec: *s}
	opts := resourcehelper.PodResourcesOptions{}
	defaultHugePageLimits(r, resourcehelper.AggregateContainerLimits(pod, opts))
	if len(r.Limits) == 0 {
		return
	}
	sums := resourcehelper.AggregateContainerRequests(pod, opts)
	for name, sum := range sums {
		// Huge pages cannot be overcommitted: their request is the limit's.
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || !resourcehelper.IsSupportedPodLevelResource(name) {
			continue
		}
		if _, ok := r.Requests[name]; !ok {
			setRequest(r, name, sum)
		}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
			setRequest(r, name, limit)
		}
	}
}

// podLevelComplete tells whether nothing can be left to derive, which saves the
// sums on pods that are already defaulted.
func podLevelComplete(s *corev1.PodSpec) bool {
	r := s.Resources
	for name := range r.Limits {
		if _, ok := r.Requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
			return false
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for name := range list[i].Resources.Requests {
				if _, ok := r.Requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
					return false
				}
			}
		}
	}
	return true
}

func defaultHugePageLimits(r *corev1.ResourceRequirements, sums corev1.ResourceList) {
	for name, sum := range sums {
		if !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			continue
		}
		if _, ok := r.Limits[name]; ok {
			continue
		}
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Limits[name] = sum.DeepCopy()
	}
}

func setRequest(r *corev1.ResourceRequirements, name corev1.ResourceName, q resource.Quantity) {
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	r.Requests[name] = q.DeepCopy()
}
