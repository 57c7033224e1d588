package config

import (
	corev1 "k8s.io/api/core/v1"
)

// EtcHosts is where the hosts file is mounted in a container.
const EtcHosts = "/etc/hosts"

// HostsFile returns the content of a pod's managed hosts file. For a pod of its
// own network it is made of the pod's addresses and names; nodeHosts, the
// node's own hosts file, is used for a pod of the host's network alone.
func HostsFile(pod *corev1.Pod, node *Node, podIPs []string, nodeHosts []byte) ([]byte, error) {
	return nil, nil
}

// WriteHostsFile writes the hosts file at path with mode 0644, in place, because
// running containers have it mounted; it follows no link and leaves a file
// alone that has the content already.
func WriteHostsFile(path string, content []byte) error {
	return nil
}
