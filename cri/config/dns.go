package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// Limits of a resolver configuration, the kubelet's own.
const (
	maxNameservers   = 3
	maxSearches      = 32
	maxSearchChars   = 2048
	maxSearchPath    = 253 // some C libraries abort on more than 255
	maxResolvConf    = 1 << 20
	reasonDNSForming = "DNSConfigForming"
)

// ResolvConf is the content of a resolv.conf file.
type ResolvConf struct {
	Nameservers, Searches, Options []string
}

// ParseResolvConf reads a resolv.conf file: of several search lines the last
// counts, options add up by name. A search domain loses its final dot; "."
// alone is left out. It reads at most 1 MiB. A nameserver line without an
// address is an error, beside the rest of the result.
func ParseResolvConf(r io.Reader) (*ResolvConf, error) {
	var c ResolvConf
	var errs []error
	sc := bufio.NewScanner(io.LimitReader(r, maxResolvConf))
	sc.Buffer(nil, maxResolvConf)
	for n := 1; sc.Scan(); n++ {
		f := strings.Fields(sc.Text())
		if len(f) == 0 || f[0][0] == '#' || f[0][0] == ';' {
			continue
		}
		switch f[0] {
		case "nameserver":
			if len(f) < 2 {
				errs = append(errs, fmt.Errorf("resolv.conf line %d: nameserver without an address", n))
				continue
			}
			c.Nameservers = append(c.Nameservers, f[1])
		case "search":
			c.Searches = nil
			for _, s := range f[1:] {
				if s != "." {
					c.Searches = append(c.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			for _, o := range f[1:] {
				c.Options = setOption(c.Options, o)
			}
		}
	}
	if err := sc.Err(); err != nil {
		errs = append(errs, fmt.Errorf("resolv.conf: %w", err))
	}
	return &c, errors.Join(errs...)
}

// setOption adds an option such as "ndots:5", in the place of one of its name.
func setOption(list []string, o string) []string {
	name, _, _ := strings.Cut(o, ":")
	for i, old := range list {
		if n, _, _ := strings.Cut(old, ":"); n == name {
			list[i] = o
			return list
		}
	}
	return append(list, o)
}

// Warning is something that was done differently from what the pod asked for.
// It is meant for an event.
type Warning struct {
	// Reason is an UpperCamelCase API reason, Message is for people.
	Reason, Message string
}

// DNS returns the resolver configuration of a pod. host is the node's own; nil
// is a node without one, where pods that use it ask the node itself. What
// exceeds the limits (3 servers, 32 search domains of 2048 characters together)
// is cut off with a warning; so is, on a node without cluster DNS, ClusterFirst
// answered with the node's settings. Neither host nor pod is changed.
func DNS(pod *corev1.Pod, node *Node, host *ResolvConf) (*runtimeapi.DNSConfig, []Warning) {
	node = node.orZero()
	var warnings []Warning
	policy := pod.Spec.DNSPolicy
	switch policy {
	case corev1.DNSNone, corev1.DNSDefault, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet:
	case "":
		policy = corev1.DNSClusterFirst
	default:
		warnings = append(warnings, Warning{reasonDNSForming, fmt.Sprintf("unknown dnsPolicy %q is taken as %s", policy, corev1.DNSClusterFirst)})
		policy = corev1.DNSClusterFirst
	}
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	cluster := policy == corev1.DNSClusterFirst || policy == corev1.DNSClusterFirstWithHostNet
	if cluster && len(node.ClusterDNS) == 0 {
		warnings = append(warnings, Warning{"MissingClusterDNS", fmt.Sprintf(
			"pod %s: the node has no cluster DNS and cannot follow dnsPolicy %s; it uses %s instead", podsync.Ref(pod), policy, corev1.DNSDefault)})
		cluster, policy = false, corev1.DNSDefault
	}
	c := &runtimeapi.DNSConfig{}
	switch {
	case cluster:
		c.Servers = slices.Clone(node.ClusterDNS)
		c.Searches = clusterSearches(pod, node, host)
		c.Options = []string{"ndots:5"}
	case policy == corev1.DNSDefault && host == nil:
		c.Servers, c.Searches = localServers(node), []string{"."}
	case policy == corev1.DNSDefault:
		c.Servers, c.Searches, c.Options = slices.Clone(host.Nameservers), slices.Clone(host.Searches), slices.Clone(host.Options)
	}
	if d := pod.Spec.DNSConfig; d != nil {
		c.Servers = unique(append(c.Servers, d.Nameservers...))
		c.Searches = unique(append(c.Searches, d.Searches...))
		for _, o := range d.Options {
			if o.Value != nil && *o.Value != "" {
				c.Options = setOption(c.Options, o.Name+":"+*o.Value)
			} else {
				c.Options = setOption(c.Options, o.Name)
			}
		}
	}
	return c, append(warnings, limitDNS(c)...)
}

func clusterSearches(pod *corev1.Pod, node *Node, host *ResolvConf) []string {
	var list []string
	if d := node.ClusterDomain; d != "" {
		list = append(list, pod.Namespace+".svc."+d, "svc."+d, d)
	}
	if host != nil {
		list = append(list, host.Searches...)
	}
	return unique(list)
}

// localServers are the node's own addresses for a resolver: the loopback of
// each family that the node has.
func localServers(node *Node) []string {
	var list []string
	for _, ip := range node.IPs {
		if strings.Contains(ip, ":") {
			list = append(list, "::1")
		} else {
			list = append(list, "127.0.0.1")
		}
	}
	if len(list) == 0 {
		return []string{"127.0.0.1"}
	}
	return unique(list)
}

// limitDNS cuts c down to what C libraries take.
func limitDNS(c *runtimeapi.DNSConfig) []Warning {
	var warnings []Warning
	if len(c.Servers) > maxNameservers {
		c.Servers = c.Servers[:maxNameservers]
		warnings = append(warnings, Warning{reasonDNSForming, fmt.Sprintf(
			"more than %d nameservers, some have been left out; those used are: %s", maxNameservers, strings.Join(c.Servers, " "))})
	}
	var kept []string
	chars := 0
	for _, s := range c.Searches {
		if len(s) > maxSearchPath {
			continue
		}
		n := chars + len(s)
		if len(kept) > 0 {
			n++
		}
		if len(kept) == maxSearches || n > maxSearchChars {
			break
		}
		kept, chars = append(kept, s), n
	}
	if len(kept) < len(c.Searches) {
		c.Searches = kept
		warnings = append(warnings, Warning{reasonDNSForming, fmt.Sprintf(
			"the search list exceeds %d domains or %d characters, some domains have been left out; those used are: %s",
			maxSearches, maxSearchChars, strings.Join(kept, " "))})
	}
	return warnings
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
