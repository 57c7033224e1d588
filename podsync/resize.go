package podsync

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ResourceDiffers tells whether two sets of resources have another request or
// limit of the resource. A request that is missing counts as nothing, a limit
// that is missing, or zero, as none. nil is an empty set.
func ResourceDiffers(a, b *corev1.ResourceRequirements, n corev1.ResourceName) bool {
	if a == b {
		return false
	}
	ar, al := amounts(a, n)
	br, bl := amounts(b, n)
	return ar.Cmp(br) != 0 || al.Cmp(bl) != 0
}

// ResourceShrinks tells whether to go from have to want makes an amount of the
// resource smaller and none larger. A limit that goes away grows, one that is
// added shrinks.
func ResourceShrinks(want, have *corev1.ResourceRequirements, n corev1.ResourceName) bool {
	wr, wl := amounts(want, n)
	hr, hl := amounts(have, n)
	requests, limits := wr.Cmp(hr), limitCmp(wl, hl)
	return requests <= 0 && limits <= 0 && (requests < 0 || limits < 0)
}

// amounts returns the request and the limit of a resource, zero for none.
func amounts(r *corev1.ResourceRequirements, n corev1.ResourceName) (request, limit resource.Quantity) {
	if r == nil {
		return request, limit
	}
	return r.Requests[n], r.Limits[n]
}

// limitCmp compares limits, of which zero is the largest.
func limitCmp(a, b resource.Quantity) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Cmp(b)
}
