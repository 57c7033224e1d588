package config

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/sdk/podsync"
)

// Lengths that the kernel and DNS allow.
const (
	maxHostname = 63
	maxNodename = 64
)

// Hostname returns a pod's host name and domain, as its hosts file has them.
// The domain is "" for a pod without a subdomain. A pod of the host's network
// has the host name too, but its sandbox does not get it. A name of more than
// 63 characters is cut; one that is no DNS name is an error.
func Hostname(pod *corev1.Pod, node *Node) (host, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		if msgs := validation.IsDNS1123Subdomain(*o); len(msgs) > 0 {
			return "", "", fmt.Errorf("pod %s: spec.hostnameOverride %q: %s", podsync.Ref(pod), *o, strings.Join(msgs, "; "))
		}
		host, err = cutHostname(pod, *o)
		return host, "", err
	}
	host = pod.Name
	if pod.Spec.Hostname != "" {
		if msgs := validation.IsDNS1123Label(pod.Spec.Hostname); len(msgs) > 0 {
			return "", "", fmt.Errorf("pod %s: spec.hostname %q: %s", podsync.Ref(pod), pod.Spec.Hostname, strings.Join(msgs, "; "))
		}
		host = pod.Spec.Hostname
	}
	if host, err = cutHostname(pod, host); err != nil {
		return "", "", err
	}
	if sub := pod.Spec.Subdomain; sub != "" {
		if msgs := validation.IsDNS1123Label(sub); len(msgs) > 0 {
			return "", "", fmt.Errorf("pod %s: spec.subdomain %q: %s", podsync.Ref(pod), sub, strings.Join(msgs, "; "))
		}
		domain = sub + "." + pod.Namespace + ".svc"
		if cluster := node.orZero().ClusterDomain; cluster != "" {
			domain += "." + cluster
		}
	}
	return host, domain, nil
}

func cutHostname(pod *corev1.Pod, name string) (string, error) {
	if len(name) <= maxHostname {
		return name, nil
	}
	cut := strings.TrimRight(name[:maxHostname], "-.")
	if cut == "" {
		return "", fmt.Errorf("pod %s: host name %q has no usable part", podsync.Ref(pod), name)
	}
	return cut, nil
}

// sandboxHostname returns the kernel's host name for the pod: "" on the host's
// network, the full name with setHostnameAsFQDN.
func sandboxHostname(pod *corev1.Pod, node *Node) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	host, domain, err := Hostname(pod, node)
	if err != nil {
		return "", err
	}
	if fqdn := pod.Spec.SetHostnameAsFQDN; fqdn == nil || !*fqdn || domain == "" {
		return host, nil
	}
	full := host + "." + domain
	if len(full) > maxNodename {
		return "", fmt.Errorf("pod %s: setHostnameAsFQDN: host name %q has %d characters, more than the %d that the kernel allows",
			podsync.Ref(pod), full, len(full), maxNodename)
	}
	return full, nil
}
