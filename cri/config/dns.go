package config

import (
	"io"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ResolvConf is the content of a resolv.conf file.
type ResolvConf struct {
	Nameservers, Searches, Options []string
}

// ParseResolvConf reads a resolv.conf file: of several search or options lines
// the last counts, as the C library does it. It reads at most 1 MiB.
func ParseResolvConf(r io.Reader) (*ResolvConf, error) { return nil, nil }

// Warning is something that was done differently from what the pod asked for.
// It is meant for an event.
type Warning struct {
	// Reason is an UpperCamelCase API reason, Message is for people.
	Reason, Message string
}

// DNS returns the resolver configuration of a pod. host is the node's own; nil
// counts as empty. What exceeds the limits (3 servers, 32 search domains of
// 2048 characters together) is cut off with a warning, as is ClusterFirst on a
// node without cluster DNS answered with the node's settings.
func DNS(pod *corev1.Pod, node *Node, host *ResolvConf) (*runtimeapi.DNSConfig, []Warning) {
	return nil, nil
}
