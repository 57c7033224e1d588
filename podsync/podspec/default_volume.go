package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// tokenExpirationSeconds is how long a projected service account token lives
// that gives no time.
const tokenExpirationSeconds int64 = 60 * 60

// defaultVolume sets the defaults of the kinds of volume that a node mounts
// itself. A volume that names no source at all is an emptyDir.
func defaultVolume(v *corev1.Volume) {
	switch s := &v.VolumeSource; {
	case s.ConfigMap != nil:
		defaultMode(&s.ConfigMap.DefaultMode)
	case s.Secret != nil:
		defaultMode(&s.Secret.DefaultMode)
	case s.EmptyDir != nil:
	case s.HostPath != nil:
		if s.HostPath.Type == nil {
			s.HostPath.Type = new(corev1.HostPathUnset)
		}
	case s.Projected != nil:
		defaultProjected(s.Projected)
	case s.DownwardAPI != nil:
		defaultMode(&s.DownwardAPI.DefaultMode)
		defaultDownward(s.DownwardAPI.Items)
	case s.Image != nil:
		if s.Image.PullPolicy == "" {
			s.Image.PullPolicy = DefaultPullPolicy(s.Image.Reference)
		}
	case s.Ephemeral != nil:
		if t := s.Ephemeral.VolumeClaimTemplate; t != nil && t.Spec.VolumeMode == nil {
			t.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		}
	case s.ISCSI != nil:
		if s.ISCSI.ISCSIInterface == "" {
			s.ISCSI.ISCSIInterface = "default"
		}
	case *s == corev1.VolumeSource{}:
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	defaultMode(&p.DefaultMode)
	for i := range p.Sources {
		if t := p.Sources[i].ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
			t.ExpirationSeconds = new(tokenExpirationSeconds)
		}
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultMode(m **int32) {
	if *m == nil {
		*m = new(defaultFileMode)
	}
}
