package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// fieldValue resolves a fieldRef.
func fieldValue(path string, pod *corev1.Pod, node *Node, podIPs []string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		if pod.Spec.NodeName == "" {
			return node.Name, nil
		}
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		if len(node.IPs) == 0 {
			return "", errors.New("fieldRef status.hostIP: the node has no known address")
		}
		return node.IPs[0], nil
	case "status.hostIPs":
		if len(node.IPs) == 0 {
			return "", errors.New("fieldRef status.hostIPs: the node has no known address")
		}
		return strings.Join(node.IPs, ","), nil
	case "status.podIP":
		if len(podIPs) == 0 {
			return "", nil
		}
		return podIPs[0], nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("fieldRef %q is not a field that an environment variable can have", path)
}

// subscript takes the key out of field['key'].
func subscript(path, field string) (string, bool) {
	rest, ok := strings.CutPrefix(path, field+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resourceValue resolves a resourceFieldRef. A limit that the container does
// not set is the pod's, or else what the node can give.
func resourceValue(r *corev1.ResourceFieldSelector, pod *corev1.Pod, c *corev1.Container, node *Node) (string, error) {
	if r.ContainerName != "" && r.ContainerName != c.Name {
		if c = findContainer(pod, r.ContainerName); c == nil {
			return "", fmt.Errorf("resourceFieldRef: the pod has no container %q", r.ContainerName)
		}
	}
	kind, name, ok := strings.Cut(r.Resource, ".")
	res := corev1.ResourceName(name)
	known := res == corev1.ResourceCPU || res == corev1.ResourceMemory || res == corev1.ResourceEphemeralStorage
	if !ok || (!known && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)) {
		return "", fmt.Errorf("resourceFieldRef: unsupported resource %q", r.Resource)
	}
	var q resource.Quantity
	switch kind {
	case "requests":
		q = c.Resources.Requests[res]
	case "limits":
		if q = c.Resources.Limits[res]; q.IsZero() && known {
			q = defaultLimit(res, pod, node)
		}
	default:
		return "", fmt.Errorf("resourceFieldRef: unsupported resource %q", r.Resource)
	}
	value, divisor := q.Value(), r.Divisor.Value()
	if res == corev1.ResourceCPU {
		value, divisor = q.MilliValue(), r.Divisor.MilliValue()
	}
	switch {
	case r.Divisor.Sign() < 0 || (divisor == 0 && !r.Divisor.IsZero()):
		return "", fmt.Errorf("resourceFieldRef: divisor %s makes no sense", r.Divisor.String())
	case r.Divisor.IsZero() && res == corev1.ResourceCPU:
		divisor = 1000
	case r.Divisor.IsZero():
		divisor = 1
	}
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(divisor))), 10), nil
}

func defaultLimit(res corev1.ResourceName, pod *corev1.Pod, node *Node) resource.Quantity {
	if resourcehelper.IsPodLevelLimitsSet(pod) && resourcehelper.IsSupportedPodLevelResource(res) {
		if q, ok := pod.Spec.Resources.Limits[res]; ok && !q.IsZero() {
			return q
		}
	}
	return node.Allocatable[res]
}

func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return &pod.Spec.InitContainers[i]
		}
	}
	return nil
}

// serviceEnv returns the variables that tell a container where services are:
// of default/kubernetes always, of the pod's namespace with enableServiceLinks.
// A service of that name in the pod's own namespace wins.
func serviceEnv(in *EnvInput) []envVar {
	if len(in.Services) == 0 {
		return nil
	}
	links := in.Pod.Spec.EnableServiceLinks == nil || *in.Pod.Spec.EnableServiceLinks
	byName := map[string]*corev1.Service{}
	for _, s := range in.Services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		own := s.Namespace == in.Pod.Namespace && links
		if !own && (s.Namespace != corev1.NamespaceDefault || s.Name != "kubernetes") {
			continue
		}
		if byName[s.Name] == nil || own {
			byName[s.Name] = s
		}
	}
	var list []envVar
	for _, name := range sortedKeys(byName) {
		list = appendService(list, byName[name])
	}
	slices.SortFunc(list, func(a, b envVar) int { return strings.Compare(a.name, b.name) })
	return list
}

// appendService adds the variables of one service, in the form that links of
// Docker containers once had.
func appendService(list []envVar, s *corev1.Service) []envVar {
	prefix, ip := envName(s.Name), s.Spec.ClusterIP
	add := func(name, value string) { list = append(list, envVar{prefix + name, value}) }
	add("_SERVICE_HOST", ip)
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		port := strconv.Itoa(int(p.Port))
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		scheme := strings.ToLower(string(protocol))
		url := scheme + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			add("_SERVICE_PORT", port)
			add("_PORT", url)
		}
		if p.Name != "" {
			add("_SERVICE_PORT_"+envName(p.Name), port)
		}
		one := "_PORT_" + port + "_" + strings.ToUpper(string(protocol))
		add(one, url)
		add(one+"_PROTO", scheme)
		add(one+"_PORT", port)
		add(one+"_ADDR", ip)
	}
	return list
}

func envName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }

// parseEnvFile finds a key in a file of KEY='value' lines: values stand in
// single quotes, may span lines and are taken literally; blank lines and
// comments are skipped. Unlike the kubelet's, an empty value counts as found.
func parseEnvFile(data []byte, key string) (value string, found bool, err error) {
	rest, line := string(data), 0
	for rest != "" {
		line++
		text, after, _ := strings.Cut(rest, "\n")
		indent := len(text) - len(strings.TrimLeft(text, " \t"))
		text = strings.TrimSuffix(text[indent:], "\r")
		if text == "" || text[0] == '#' {
			rest = after
			continue
		}
		name, v, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return "", false, fmt.Errorf("line %d: no '='", line)
		case name == "" || strings.TrimRight(name, " \t") != name:
			return "", false, fmt.Errorf("line %d: the name before '=' is empty or ends in a space", line)
		case v != "" && (v[0] == ' ' || v[0] == '\t'):
			// As in a shell: an assignment of nothing, then a command.
			if name == key {
				return "", true, nil
			}
			rest = after
			continue
		case v == "" || v[0] != '\'':
			return "", false, fmt.Errorf("line %d: the value is not in single quotes", line)
		}
		v, after, ok = strings.Cut(rest[indent+len(name)+len("='"):], "'")
		if !ok {
			return "", false, fmt.Errorf("line %d: the quote is not closed", line)
		}
		line += strings.Count(v, "\n")
		text, rest, _ = strings.Cut(after, "\n")
		if text = strings.Trim(text, " \t\r"); text != "" && text[0] != '#' {
			return "", false, fmt.Errorf("line %d: something follows the closing quote", line)
		}
		if name == key {
			return v, true, nil
		}
	}
	return "", false, nil
}
