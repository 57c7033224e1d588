package status

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
			podsync.ReportedResources(st.Resources, rc.Resources)
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
