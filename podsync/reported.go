package podsync

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Values below which CPU settings of the runtime say nothing: it cannot express
// fewer shares or a smaller quota, so the pod's own value stands.
const (
	minShares      = 2
	minLimitMillis = 10
	cfsPeriod      = 100_000
)

// ReportedResources replaces the amounts of r by those that the runtime reports
// where they differ; nil reports nothing. A reported value that is what the one in
// r becomes in the runtime's units is the one in r, so that no rounding shows. An
// amount that r does not have is not added. r's lists are replaced, not changed.
func ReportedResources(r *corev1.ResourceRequirements, l *RuntimeResources) {
	if l == nil {
		return
	}
	r.Requests, r.Limits = maps.Clone(r.Requests), maps.Clone(r.Limits)
	if want, ok := r.Requests[corev1.ResourceCPU]; ok && l.CPUShares > 0 {
		shares := l.CPUShares
		tiny := shares <= minShares && sharesOf(want.MilliValue()) <= minShares
		if !tiny && sharesOf(want.MilliValue()) != shares {
			r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(ceilDiv(shares*1000, 1024), resource.DecimalSI)
		}
	}
	if want, ok := r.Limits[corev1.ResourceCPU]; ok && l.CPUQuota > 0 {
		period := l.CPUPeriod
		if period <= 0 {
			period = cfsPeriod
		}
		millis := ceilDiv(l.CPUQuota*1000, period)
		tiny := millis <= minLimitMillis && want.MilliValue() <= minLimitMillis
		if !tiny && want.MilliValue()*period/1000 != l.CPUQuota {
			r.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(millis, resource.DecimalSI)
		}
	}
	if want, ok := r.Limits[corev1.ResourceMemory]; ok && l.MemoryLimit > 0 {
		if want.Value() != l.MemoryLimit {
			r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(l.MemoryLimit, resource.BinarySI)
		}
	}
}

// sharesOf is the cgroup cpu.shares of a request in thousandths of a CPU.
func sharesOf(millis int64) int64 { return max(millis*1024/1000, minShares) }

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
