package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxSysctlName      = 253
	maxAppArmorProfile = 4095
)

func (c *checker) podSecurity(p *field.Path) {
	s := &c.pod.Spec
	if s.HostUsers != nil && !*s.HostUsers {
		for _, h := range []struct {
			name string
			set  bool
		}{{"hostNetwork", s.HostNetwork}, {"hostPID", s.HostPID}, {"hostIPC", s.HostIPC}} {
			if h.set {
				c.forbidden(field.NewPath("spec"), h.name, "may not be true when hostUsers is false")
			}
		}
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		c.forbidden(field.NewPath("spec"), "shareProcessNamespace", "may not be true when hostPID is true")
	}
	sc := s.SecurityContext
	if sc == nil {
		return
	}
	c.id(p, "runAsUser", sc.RunAsUser)
	c.id(p, "runAsGroup", sc.RunAsGroup)
	c.id(p, "fsGroup", sc.FSGroup)
	for i := range sc.SupplementalGroups {
		inRange(c, p.Child("supplementalGroups").Index(i), "", sc.SupplementalGroups[i], 0, math.MaxInt32)
	}
	if v := sc.FSGroupChangePolicy; v != nil {
		oneOf(c, p, "fsGroupChangePolicy", *v, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	if v := sc.SupplementalGroupsPolicy; v != nil {
		oneOf(c, p, "supplementalGroupsPolicy", *v, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	c.seccomp(p.Child("seccompProfile"), sc.SeccompProfile)
	c.appArmor(p.Child("appArmorProfile"), sc.AppArmorProfile)
	c.sysctls(p.Child("sysctls"), sc.Sysctls)
}

// id checks a user or group id.
func (c *checker) id(p *field.Path, child string, id *int64) {
	if id != nil {
		inRange(c, p, child, *id, 0, math.MaxInt32)
	}
}

func (c *checker) sysctls(p *field.Path, list []corev1.Sysctl) {
	seen := make(map[string]bool, len(list))
	for i := range list {
		name, sp := list[i].Name, p.Index(i)
		switch {
		case name == "":
			c.required(sp, "name", "")
			continue
		case len(name) > maxSysctlName || !isSysctlName(name):
			c.invalid(sp, "name", name, "must be a sysctl name of at most %d characters", maxSysctlName)
			continue
		}
		// net/ipv4/x and net.ipv4.x are one.
		dotted := strings.ReplaceAll(name, "/", ".")
		c.unique(sp, "name", dotted, seen)
		if c.pod.Spec.HostNetwork && strings.HasPrefix(dotted, "net.") {
			c.invalid(sp, "name", name, "may not be set when hostNetwork is true")
		}
		if c.pod.Spec.HostIPC && (strings.HasPrefix(dotted, "kernel.shm") || strings.HasPrefix(dotted, "kernel.msg") ||
			dotted == "kernel.sem" || strings.HasPrefix(dotted, "fs.mqueue.")) {
			c.invalid(sp, "name", name, "may not be set when hostIPC is true")
		}
	}
}

// seccomp checks a profile. A Localhost profile without a name must never be
// taken for none: that would run the container unconfined.
func (c *checker) seccomp(p *field.Path, s *corev1.SeccompProfile) {
	if s == nil {
		return
	}
	oneOf(c, p, "type", s.Type, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined, corev1.SeccompProfileTypeLocalhost)
	switch {
	case s.Type != corev1.SeccompProfileTypeLocalhost:
		if s.LocalhostProfile != nil {
			c.forbidden(p, "localhostProfile", "may only be set when type is Localhost")
		}
	case s.LocalhostProfile == nil:
		c.required(p, "localhostProfile", "must be set when type is Localhost")
	default:
		c.localPath(p, "localhostProfile", *s.LocalhostProfile)
	}
}

func (c *checker) appArmor(p *field.Path, a *corev1.AppArmorProfile) {
	if a == nil {
		return
	}
	oneOf(c, p, "type", a.Type, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined, corev1.AppArmorProfileTypeLocalhost)
	switch {
	case a.Type != corev1.AppArmorProfileTypeLocalhost:
		if a.LocalhostProfile != nil {
			c.forbidden(p, "localhostProfile", "may only be set when type is Localhost")
		}
	case a.LocalhostProfile == nil || strings.TrimSpace(*a.LocalhostProfile) == "":
		c.required(p, "localhostProfile", "must be set when type is Localhost")
	case strings.TrimSpace(*a.LocalhostProfile) != *a.LocalhostProfile:
		c.invalid(p, "localhostProfile", *a.LocalhostProfile, "must not begin or end with white space")
	case len(*a.LocalhostProfile) > maxAppArmorProfile:
		c.add(field.TooLong(p.Child("localhostProfile"), "", maxAppArmorProfile))
	}
}

func (c *checker) containerSecurity(p *field.Path, ct *corev1.Container) {
	sc := ct.SecurityContext
	if sc == nil {
		return
	}
	c.id(p, "runAsUser", sc.RunAsUser)
	c.id(p, "runAsGroup", sc.RunAsGroup)
	c.seccomp(p.Child("seccompProfile"), sc.SeccompProfile)
	c.appArmor(p.Child("appArmorProfile"), sc.AppArmorProfile)
	if m := sc.ProcMount; m != nil {
		oneOf(c, p, "procMount", *m, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if *m == corev1.UnmaskedProcMount && (c.pod.Spec.HostUsers == nil || *c.pod.Spec.HostUsers) {
			c.invalid(p, "procMount", string(*m), "needs hostUsers to be false")
		}
	}
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		return
	}
	if sc.Privileged != nil && *sc.Privileged {
		c.invalid(p, "allowPrivilegeEscalation", false, "cannot be false when privileged is true")
	}
	if sc.Capabilities != nil {
		for _, added := range sc.Capabilities.Add {
			if added == "CAP_SYS_ADMIN" {
				c.invalid(p, "allowPrivilegeEscalation", false, "cannot be false when CAP_SYS_ADMIN is added")
			}
		}
	}
}

// isSysctlName tells whether s is a sysctl's name, in either spelling: with
// dots or with slashes between elements of lower-case letters, digits and inner
// dashes and underscores.
func isSysctlName(s string) bool {
	inner := false // the last byte may be followed by the end or a separator
	for i := range len(s) {
		switch b := s[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
			inner = true
		case b == '.' || b == '/':
			if !inner {
				return false
			}
			inner = false
		case b == '-' || b == '_':
			if i == 0 || s[i-1] == '.' || s[i-1] == '/' {
				return false
			}
			inner = false
		default:
			return false
		}
	}
	return inner
}
