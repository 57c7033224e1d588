package config

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// SandboxInput is what a sandbox's configuration is made of.
type SandboxInput struct {
	// Pod is the pod; required. It need not be defaulted.
	Pod *corev1.Pod
	// Node is the node; nil is the zero Node.
	Node *Node
	// Attempt is the number of sandboxes that the pod had before this one.
	Attempt uint32
	// CgroupParent is the pod's cgroup, as podsync.CgroupParent has it; "" leaves
	// the place to the runtime.
	CgroupParent string
	// DNS is the resolver configuration, from DNS; nil leaves it to the runtime.
	DNS *runtimeapi.DNSConfig
	// SupplementalGroups are those that the volumes bring along.
	SupplementalGroups []int64
	// UserNamespace is the pod's mapping when hostUsers is false; nil shares the
	// host's. A pod with hostUsers false and no mapping is an error.
	UserNamespace *runtimeapi.UserNamespace
	// Annotations are a site's additions; those with a Container are left out.
	// They cannot replace the pod's own.
	Annotations []podsync.ExtraAnnotation
}

// Sandbox returns the configuration of a pod's sandbox, as the kubelet's would
// be, but for two things: host ports of init containers and sidecars are mapped
// too, and the namespaces, ids and groups do not depend on a securityContext
// being there.
func Sandbox(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod, node := in.Pod, in.Node.orZero()
	host, err := sandboxHostname(pod, node)
	if err != nil {
		return nil, err
	}
	logs, err := LogDirectory(node.logsRoot(), pod)
	if err != nil {
		return nil, err
	}
	ports, err := portMappings(pod)
	if err != nil {
		return nil, err
	}
	security, err := sandboxSecurity(&in)
	if err != nil {
		return nil, fmt.Errorf("sandbox of pod %s: %w", podsync.Ref(pod), err)
	}
	resources, overhead := sandboxResources(node, pod)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		Hostname:     host,
		LogDirectory: logs,
		DnsConfig:    in.DNS,
		PortMappings: ports,
		Labels:       podLabels(pod),
		Annotations:  podAnnotations(pod, in.Annotations),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    in.CgroupParent,
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Overhead:        overhead,
			Resources:       resources,
		},
	}, nil
}

// sandboxSecurity returns the security context of the sandbox itself. Its
// seccomp profile is always the runtime's own, so that a pod-level profile need
// not allow what only a pause process does.
func sandboxSecurity(in *SandboxInput) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	psc := in.Pod.Spec.SecurityContext
	if psc == nil {
		psc = &corev1.PodSecurityContext{}
	}
	namespaces, err := namespaceOptions(in.Pod, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	policy, err := groupsPolicy(psc)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinuxOptions(psc.SELinuxOptions),
		RunAsUser:                int64Value(psc.RunAsUser),
		RunAsGroup:               int64Value(psc.RunAsGroup),
		SupplementalGroupsPolicy: policy,
		Privileged:               anyPrivileged(in.Pod),
		Seccomp:                  profile(runtimeapi.SecurityProfile_RuntimeDefault, ""),
	}
	if psc.FSGroup != nil {
		out.SupplementalGroups = append(out.SupplementalGroups, *psc.FSGroup)
	}
	out.SupplementalGroups = append(out.SupplementalGroups, in.SupplementalGroups...)
	out.SupplementalGroups = append(out.SupplementalGroups, psc.SupplementalGroups...)
	return out, nil
}

// anyPrivileged tells whether a container of any kind is privileged: the
// runtime refuses such a container in a sandbox that is not.
func anyPrivileged(pod *corev1.Pod) bool {
	privileged := func(sc *corev1.SecurityContext) bool { return sc != nil && isTrue(sc.Privileged) }
	for i := range pod.Spec.InitContainers {
		if privileged(pod.Spec.InitContainers[i].SecurityContext) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if privileged(pod.Spec.Containers[i].SecurityContext) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if privileged(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

// sysctls returns the pod's sysctls by their dotted names.
func sysctls(pod *corev1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	m := make(map[string]string, len(pod.Spec.SecurityContext.Sysctls))
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		m[sysctl.NormalizeName(s.Name)] = s.Value
	}
	return m
}
