package config

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

type portKey struct {
	protocol      runtimeapi.Protocol
	hostIP        string
	host, contain int32
}

// portMappings returns the port mappings of a pod: all ports of its regular
// containers, and the host ports of its init containers, which the kubelet
// forgets. Where an init container wants a host port that a regular container
// has, which is allowed since they do not run together, the regular one wins.
func portMappings(pod *corev1.Pod) ([]*runtimeapi.PortMapping, error) {
	var list []*runtimeapi.PortMapping
	seen := map[portKey]bool{}
	taken := map[portKey]bool{} // with no container port
	add := func(c *corev1.Container, hostOnly bool) error {
		for i := range c.Ports {
			p := &c.Ports[i]
			if hostOnly && p.HostPort == 0 {
				continue
			}
			protocol, err := criProtocol(p.Protocol)
			if err != nil {
				return inContainer(pod, c.Name, err)
			}
			k := portKey{protocol, p.HostIP, p.HostPort, p.ContainerPort}
			hostKey := portKey{protocol, p.HostIP, p.HostPort, 0}
			if seen[k] || (hostOnly && taken[hostKey]) {
				continue
			}
			seen[k] = true
			if p.HostPort != 0 {
				taken[hostKey] = true
			}
			list = append(list, &runtimeapi.PortMapping{
				Protocol: protocol, ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
		return nil
	}
	for i := range pod.Spec.Containers {
		if err := add(&pod.Spec.Containers[i], false); err != nil {
			return nil, err
		}
	}
	for i := range pod.Spec.InitContainers {
		if err := add(&pod.Spec.InitContainers[i], true); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func criProtocol(p corev1.Protocol) (runtimeapi.Protocol, error) {
	switch corev1.Protocol(strings.ToUpper(string(p))) {
	case "", corev1.ProtocolTCP:
		return runtimeapi.Protocol_TCP, nil
	case corev1.ProtocolUDP:
		return runtimeapi.Protocol_UDP, nil
	case corev1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP, nil
	default:
		return 0, configErrorf("port protocol %q is not TCP, UDP or SCTP", p)
	}
}

// cdiDevices returns the CDI devices meant for the container.
func cdiDevices(container string, extra []podsync.ExtraCDIDevice) []*runtimeapi.CDIDevice {
	var list []*runtimeapi.CDIDevice
	for _, d := range extra {
		if d.Container == "" || d.Container == container {
			list = append(list, &runtimeapi.CDIDevice{Name: d.Name})
		}
	}
	return list
}
