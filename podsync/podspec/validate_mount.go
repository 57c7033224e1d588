package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *checker) mounts(p *field.Path, ct *corev1.Container) {
	if len(ct.VolumeMounts)+len(ct.VolumeDevices) == 0 {
		return
	}
	paths := make(map[string]bool, len(ct.VolumeMounts)+len(ct.VolumeDevices))
	mounted := make(map[string]bool, len(ct.VolumeMounts))
	for i := range ct.VolumeMounts {
		m := &ct.VolumeMounts[i]
		mounted[m.Name] = true
		c.mount(p.Child("volumeMounts").Index(i), m, ct, paths)
	}
	for i := range ct.VolumeDevices {
		d, dp := &ct.VolumeDevices[i], p.Child("volumeDevices").Index(i)
		if v := c.volume[d.Name]; v == nil {
			c.add(field.NotFound(dp.Child("name"), shorten(d.Name)))
		} else if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			c.invalid(dp, "name", d.Name, "must be a persistentVolumeClaim or ephemeral volume")
		}
		if mounted[d.Name] {
			c.invalid(dp, "name", d.Name, "must not also be in volumeMounts")
		}
		if d.DevicePath == "" {
			c.required(dp, "devicePath", "")
			continue
		}
		c.noDotDot(dp, "devicePath", d.DevicePath)
		c.unique(dp, "devicePath", d.DevicePath, paths)
	}
}

func (c *checker) mount(p *field.Path, m *corev1.VolumeMount, ct *corev1.Container, paths map[string]bool) {
	v := c.volume[m.Name]
	switch {
	case m.Name == "":
		c.required(p, "name", "")
	case v == nil:
		c.add(field.NotFound(p.Child("name"), shorten(m.Name)))
	}
	switch {
	case m.MountPath == "":
		c.required(p, "mountPath", "")
	case strings.ContainsAny(m.MountPath, ":\x00"):
		c.invalid(p, "mountPath", m.MountPath, "must not contain ':' or a NUL byte")
	default:
		c.noDotDot(p, "mountPath", m.MountPath)
		c.unique(p, "mountPath", m.MountPath, paths)
	}
	if m.SubPath != "" && m.SubPathExpr != "" {
		c.invalid(p, "subPathExpr", m.SubPathExpr, "must not be set together with subPath")
	}
	if m.SubPath != "" {
		c.localPath(p, "subPath", m.SubPath)
	}
	if m.SubPathExpr != "" {
		c.localPath(p, "subPathExpr", m.SubPathExpr)
	}
	c.mountOptions(p, m, ct, v)
}

func (c *checker) mountOptions(p *field.Path, m *corev1.VolumeMount, ct *corev1.Container, v *corev1.Volume) {
	none := true
	if mp := m.MountPropagation; mp != nil {
		none = *mp == corev1.MountPropagationNone
		oneOf(c, p, "mountPropagation", *mp, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional)
		privileged := ct.SecurityContext != nil && ct.SecurityContext.Privileged != nil && *ct.SecurityContext.Privileged
		if *mp == corev1.MountPropagationBidirectional && !privileged {
			c.forbidden(p, "mountPropagation", "Bidirectional needs a privileged container")
		}
	}
	if r := m.RecursiveReadOnly; r != nil {
		oneOf(c, p, "recursiveReadOnly", *r, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled)
		if *r != corev1.RecursiveReadOnlyDisabled && !m.ReadOnly {
			c.forbidden(p, "recursiveReadOnly", "needs readOnly to be true")
		}
		if *r != corev1.RecursiveReadOnlyDisabled && !none {
			c.forbidden(p, "recursiveReadOnly", "needs mountPropagation to be None")
		}
	}
	if len(m.BindMountOptions) == 0 {
		return
	}
	if v != nil && v.Image != nil {
		c.forbidden(p, "bindMountOptions", "an image volume takes no mount options")
	}
	seen := make(map[string]bool, len(m.BindMountOptions))
	for i, o := range m.BindMountOptions {
		oneOf(c, p.Child("bindMountOptions").Index(i), "", o, "noexec", "nodev", "nosuid")
		c.unique(p.Child("bindMountOptions").Index(i), "", o, seen)
	}
}
