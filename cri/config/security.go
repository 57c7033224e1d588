package config

import (
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maskedPaths and readonlyPaths return the paths below /proc and /sys that
// containers of the default procMount must not see or not change: those that
// the kubelet and container runtimes agree on.
func maskedPaths(n *Node) []string {
	return append([]string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}, n.MaskedPaths...)
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// containerSecurity returns the security context of a container: its own fields
// first, then the pod's.
func containerSecurity(in *ContainerInput, node *Node) (*runtimeapi.LinuxContainerSecurityContext, error) {
	sc, psc := in.Container.SecurityContext, in.Pod.Spec.SecurityContext
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	if psc == nil {
		psc = &corev1.PodSecurityContext{}
	}
	if err := verifyRunAsNonRoot(in.Image, sc, psc); err != nil {
		return nil, err
	}
	seccomp, err := seccompProfile(node, sc, psc)
	if err != nil {
		return nil, err
	}
	apparmor, legacyApparmor, err := apparmorProfile(in.Pod, in.Container.Name, sc, psc)
	if err != nil {
		return nil, err
	}
	namespaces, err := namespaceOptions(in.Pod, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	if in.TargetID != "" && namespaces.Pid == runtimeapi.NamespaceMode_CONTAINER {
		namespaces.Pid, namespaces.TargetId = runtimeapi.NamespaceMode_TARGET, in.TargetID
	}
	policy, err := groupsPolicy(psc)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             capabilities(sc.Capabilities),
		Privileged:               isTrue(sc.Privileged),
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinuxOptions(first(sc.SELinuxOptions, psc.SELinuxOptions)),
		RunAsUser:                int64Value(first(sc.RunAsUser, psc.RunAsUser)),
		RunAsGroup:               int64Value(first(sc.RunAsGroup, psc.RunAsGroup)),
		ReadonlyRootfs:           isTrue(sc.ReadOnlyRootFilesystem),
		SupplementalGroupsPolicy: policy,
		NoNewPrivs:               sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		Seccomp:                  seccomp,
		Apparmor:                 apparmor,
		ApparmorProfile:          legacyApparmor,
	}
	if out.RunAsUser == nil {
		out.RunAsUser = int64Value(in.Image.UID)
		out.RunAsUsername = in.Image.Username
	}
	if psc.FSGroup != nil {
		out.SupplementalGroups = append(out.SupplementalGroups, *psc.FSGroup)
	}
	out.SupplementalGroups = append(out.SupplementalGroups, psc.SupplementalGroups...)
	out.SupplementalGroups = append(out.SupplementalGroups, in.SupplementalGroups...)
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = maskedPaths(node), readonlyPaths()
	}
	return out, nil
}

// verifyRunAsNonRoot refuses a container that must not run as root and does, or
// might: an image's user that is a name cannot be judged. An image that says
// nothing of its user is taken, as the kubelet takes it.
func verifyRunAsNonRoot(img Image, sc *corev1.SecurityContext, psc *corev1.PodSecurityContext) error {
	if !isTrue(first(sc.RunAsNonRoot, psc.RunAsNonRoot)) {
		return nil
	}
	if u := first(sc.RunAsUser, psc.RunAsUser); u != nil {
		if *u == 0 {
			return errors.New("runAsNonRoot is set and runAsUser is 0")
		}
		return nil
	}
	switch {
	case img.UID == nil && img.Username != "":
		return fmt.Errorf("runAsNonRoot is set and the image's user %q is not numeric: it cannot be verified; set runAsUser", img.Username)
	case img.UID == nil:
		return nil
	case *img.UID == 0:
		return errors.New("runAsNonRoot is set and the image runs as root; set runAsUser")
	case *img.UID < 0 || *img.UID > math.MaxInt32:
		return fmt.Errorf("runAsNonRoot is set and the image's user id %d is not within 1 and %d", *img.UID, math.MaxInt32)
	default:
		return nil
	}
}

// seccompProfile chooses the container's profile over the pod's over the node's
// default. A Localhost profile that is not there, or that leads out of the
// profile directory, is an error and never Unconfined.
func seccompProfile(n *Node, sc *corev1.SecurityContext, psc *corev1.PodSecurityContext) (*runtimeapi.SecurityProfile, error) {
	p := first(sc.SeccompProfile, psc.SeccompProfile)
	if p == nil {
		if n.SeccompDefault {
			return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), nil
		}
		return profile(runtimeapi.SecurityProfile_Unconfined, ""), nil
	}
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), nil
	case corev1.SeccompProfileTypeUnconfined:
		return profile(runtimeapi.SecurityProfile_Unconfined, ""), nil
	case corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, errors.New("seccompProfile: type Localhost needs a localhostProfile")
		}
		name := *p.LocalhostProfile
		if !filepath.IsLocal(name) || path.Clean(name) == "." {
			return nil, fmt.Errorf("seccompProfile: localhostProfile %q must be a path below the profile directory", name)
		}
		return profile(runtimeapi.SecurityProfile_Localhost, filepath.Join(n.seccompRoot(), name)), nil
	default:
		return nil, fmt.Errorf("seccompProfile: unknown type %q", p.Type)
	}
}

// apparmorProfile chooses the container's field, then its deprecated
// annotation, then the pod's field. The second result is the form that older
// runtimes read.
func apparmorProfile(pod *corev1.Pod, container string, sc *corev1.SecurityContext, psc *corev1.PodSecurityContext) (*runtimeapi.SecurityProfile, string, error) {
	p := sc.AppArmorProfile
	if p == nil {
		p = annotatedApparmor(pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+container])
	}
	if p == nil {
		p = psc.AppArmorProfile
	}
	if p == nil {
		return nil, "", nil
	}
	switch p.Type {
	case corev1.AppArmorProfileTypeRuntimeDefault:
		return profile(runtimeapi.SecurityProfile_RuntimeDefault, ""), corev1.DeprecatedAppArmorBetaProfileRuntimeDefault, nil
	case corev1.AppArmorProfileTypeUnconfined:
		return profile(runtimeapi.SecurityProfile_Unconfined, ""), corev1.DeprecatedAppArmorBetaProfileNameUnconfined, nil
	case corev1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || strings.TrimSpace(*p.LocalhostProfile) == "" {
			return nil, "", errors.New("appArmorProfile: type Localhost needs a localhostProfile")
		}
		name := *p.LocalhostProfile
		return profile(runtimeapi.SecurityProfile_Localhost, name), corev1.DeprecatedAppArmorBetaProfileNamePrefix + name, nil
	default:
		return nil, "", fmt.Errorf("appArmorProfile: unknown type %q", p.Type)
	}
}

func annotatedApparmor(v string) *corev1.AppArmorProfile {
	switch v {
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(v, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// namespaceOptions says which namespaces a pod has of its own.
func namespaceOptions(pod *corev1.Pod, userns *runtimeapi.UserNamespace) (*runtimeapi.NamespaceOption, error) {
	o := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
	if pod.Spec.HostNetwork {
		o.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		o.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		o.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		o.Pid = runtimeapi.NamespaceMode_POD
	}
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		o.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
		return o, nil
	}
	if userns == nil {
		return nil, errors.New("hostUsers is false and the pod has no user namespace mapping")
	}
	o.UsernsOptions = userns
	return o, nil
}

func groupsPolicy(psc *corev1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if psc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	switch *psc.SupplementalGroupsPolicy {
	case corev1.SupplementalGroupsPolicyMerge:
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case corev1.SupplementalGroupsPolicyStrict:
		return runtimeapi.SupplementalGroupsPolicy_Strict, nil
	default:
		return 0, fmt.Errorf("unknown supplementalGroupsPolicy %q", *psc.SupplementalGroupsPolicy)
	}
}

func capabilities(c *corev1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, v := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(v))
	}
	for _, v := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(v))
	}
	return out
}

func selinuxOptions(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func profile(t runtimeapi.SecurityProfile_ProfileType, ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: t, LocalhostRef: ref}
}

// first returns a, or b when a is nil.
func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func isTrue(b *bool) bool { return b != nil && *b }

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}
