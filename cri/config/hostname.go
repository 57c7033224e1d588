package config

import corev1 "k8s.io/api/core/v1"

// Hostname returns a pod's host name and domain, as its hosts file has them.
// The domain is "" for a pod without a subdomain. A pod of the host's network
// has the host name too, but its sandbox does not get it.
func Hostname(pod *corev1.Pod, node *Node) (host, domain string, err error) {
	return "", "", nil
}
