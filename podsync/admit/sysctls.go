package admit

import (
	"context"
	"strings"

	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/podsync/sdk/podsync"
)

// Sysctls refuses a pod that sets a sysctl which is neither safe nor allowed, or
// one of a namespace that it shares with the host: reason SysctlForbidden.
type Sysctls struct {
	// AllowedUnsafe are further sysctls that pods may set: names, or prefixes
	// that end in "*", such as "kernel.msg*". Default none.
	AllowedUnsafe []string
}

var _ podsync.Stage = Sysctls{}

// Name returns podsync.StageSysctls.
func (Sysctls) Name() string { return podsync.StageSysctls }

// safeSysctls are namespaced and cannot harm other pods; the kubelet's list.
func safe(name string) bool {
	switch name {
	case "kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem":
		return true
	default:
		return false
	}
}

// namespace returns "net", "ipc" or "" for a sysctl of no namespace.
func namespace(name string) string {
	switch {
	case strings.HasPrefix(name, "net."):
		return "net"
	case strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), name == "kernel.sem", strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	default:
		return ""
	}
}

// Run rejects the pod when one of its sysctls is forbidden.
func (c Sysctls) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	p := s.Pod()
	if p.Spec.SecurityContext == nil || len(p.Spec.SecurityContext.Sysctls) == 0 {
		return podsync.Skip("NoSysctls")
	}
	for _, sc := range p.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(sc.Name)
		ns := namespace(name)
		switch {
		case !safe(name) && !c.allowed(name):
			return podsync.Reject("SysctlForbidden", "sysctl %q is not on the list of safe or allowed sysctls", sc.Name)
		case ns == "":
			return podsync.Reject("SysctlForbidden", "sysctl %q has no namespace: it would change the whole node", sc.Name)
		case ns == "net" && p.Spec.HostNetwork:
			return podsync.Reject("SysctlForbidden", "sysctl %q is not allowed with hostNetwork", sc.Name)
		case ns == "ipc" && p.Spec.HostIPC:
			return podsync.Reject("SysctlForbidden", "sysctl %q is not allowed with hostIPC", sc.Name)
		}
	}
	return podsync.Continue()
}

func (c Sysctls) allowed(name string) bool {
	for _, a := range c.AllowedUnsafe {
		a = sysctl.NormalizeName(a)
		if prefix, ok := strings.CutSuffix(a, "*"); ok && strings.HasPrefix(name, prefix) || a == name {
			return true
		}
	}
	return false
}
