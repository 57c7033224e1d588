package status

import (
	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// hostIPs sets the node's addresses; without any, those said before stay.
func hostIPs(in *Input, s *corev1.PodStatus) {
	prev := in.previous()
	ips := oneOfEachFamily(in.HostIPs)
	if len(ips) == 0 {
		s.HostIP, s.HostIPs = prev.HostIP, prev.DeepCopy().HostIPs
		return
	}
	s.HostIP = ips[0]
	for _, ip := range ips {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
}

// podIPs sets the pod's addresses, one of each family, that of the node's
// primary family first. A pod on the host network has the node's: once set they
// stay, only a second family that was missing is added. Without any, those said
// before stay, so that a pod that has stopped still tells where it was.
func podIPs(in *Input, s *corev1.PodStatus) {
	prev := in.previous()
	before := make([]string, 0, 2)
	for _, ip := range prev.PodIPs {
		before = append(before, ip.IP)
	}
	var ips []string
	switch {
	case in.Pod.Spec.HostNetwork:
		ips = oneOfEachFamily(append(before[:len(before):len(before)], in.HostIPs...))
	case in.Runtime != nil && len(in.Runtime.IPs) > 0:
		v6First := len(in.HostIPs) > 0 && netutils.IsIPv6String(in.HostIPs[0])
		ips = oneOfEachFamily(in.Runtime.IPs)
		if len(ips) == 2 && len(in.HostIPs) > 0 && netutils.IsIPv6String(ips[0]) != v6First {
			ips[0], ips[1] = ips[1], ips[0]
		}
	}
	if len(ips) == 0 {
		ips = before
	}
	for i, ip := range ips {
		if i == 0 {
			s.PodIP = ip
		}
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
}

// oneOfEachFamily returns the first IPv4 and the first IPv6 address in the order
// given, in their usual writing. What is no address is left out.
func oneOfEachFamily(in []string) []string {
	var out []string
	var have [2]bool
	for _, a := range in {
		ip := netutils.ParseIPSloppy(a)
		if ip == nil {
			continue
		}
		family := 0
		if netutils.IsIPv6(ip) {
			family = 1
		}
		if !have[family] {
			have[family] = true
			out = append(out, ip.String())
		}
	}
	return out
}
