package status

import (
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/podsync"
)

// describe fills in what an instance was made with: resources, mounts, user.
func (b *builder) describe(c *corev1.Container, rc *podsync.RuntimeContainer, st, old *corev1.ContainerStatus) {
	if len(c.Resources.Requests) > 0 {
		st.AllocatedResources = c.Resources.Requests.DeepCopy()
	}
	if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
		st.Resources = c.Resources.DeepCopy()
		if rc.Running() {
			actuatedResources(st.Resources, rc.Actuated)
			actualResources(st.Resources, rc.Resources)
		}
	}
	st.VolumeMounts = mountStatuses(c, rc)
	if u := rc.User; u != nil {
		st.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{
			UID: u.UID, GID: u.GID, SupplementalGroups: slices.Clone(u.SupplementalGroups),
		}}
	}
	if old == nil || old.ContainerID != st.ContainerID {
		return
	}
	// What the runtime stops reporting of an instance still holds.
	if st.User == nil {
		st.User = old.User.DeepCopy()
	}
	if st.Resources == nil {
		st.Resources = old.Resources.DeepCopy()
	}
	if len(old.AllocatedResourcesStatus) > 0 {
		st.AllocatedResourcesStatus = old.DeepCopy().AllocatedResourcesStatus
	}
}

// actuatedResources replaces CPU and memory by what a running instance was last
// given.
func actuatedResources(r, had *corev1.ResourceRequirements) {
	if had == nil {
		return
	}
	for _, n := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if podsync.ResourceDiffers(r, had, n) {
			setAmount(&r.Requests, had.Requests, n)
			setAmount(&r.Limits, had.Limits, n)
		}
	}
}

func setAmount(to *corev1.ResourceList, from corev1.ResourceList, n corev1.ResourceName) {
	q, ok := from[n]
	switch {
	case ok && *to == nil:
		*to = corev1.ResourceList{n: q}
	case ok:
		(*to)[n] = q
	default:
		delete(*to, n)
	}
}

// Values below which CPU settings of the runtime say nothing: it cannot express
// fewer shares or a smaller quota, so the pod's own value stands.
const (
	minShares      = 2
	minLimitMillis = 10
	cfsPeriod      = 100_000
)

// actualResources replaces values by those the runtime reports where they
// differ. A reported value that is what the wanted one becomes in the runtime's
// units is the wanted one, so that no rounding shows.
func actualResources(r *corev1.ResourceRequirements, l *podsync.RuntimeResources) {
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

// mountStatuses lists a container's volume mounts, and for the read-only ones
// whether the mounts below them are read-only too.
func mountStatuses(c *corev1.Container, rc *podsync.RuntimeContainer) []corev1.VolumeMountStatus {
	if len(c.VolumeMounts) == 0 {
		return nil
	}
	out := make([]corev1.VolumeMountStatus, 0, len(c.VolumeMounts))
	for _, m := range c.VolumeMounts {
		st := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			for _, rm := range rc.Mounts {
				if rm.RecursiveReadOnly && path.Clean(rm.ContainerPath) == path.Clean(m.MountPath) {
					mode = corev1.RecursiveReadOnlyEnabled
				}
			}
			st.RecursiveReadOnly = &mode
		}
		out = append(out, st)
	}
	return out
}
