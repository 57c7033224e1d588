package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// containerKind is where in the spec a container stands.
type containerKind int

const (
	regularContainer containerKind = iota
	initContainer
	sidecarContainer // an init container with restartPolicy Always
	ephemeralContainer
)

// containers checks all containers. Their names are unique over all kinds,
// because the kinds share the pod's directories and the runtime's names.
func (c *checker) containers(spec *field.Path) {
	s := &c.pod.Spec
	seen := make(map[string]bool, len(s.InitContainers)+len(s.Containers)+len(s.EphemeralContainers))
	names := func(p *field.Path, name string) {
		c.name(p, "name", name, validation.IsDNS1123Label)
		c.unique(p, "name", name, seen)
	}
	if len(s.Containers) == 0 {
		c.required(spec, "containers", "must have at least one container")
	}
	init, regular, ephemeral := spec.Child("initContainers"), spec.Child("containers"), spec.Child("ephemeralContainers")
	for i := range s.InitContainers {
		names(init.Index(i), s.InitContainers[i].Name)
	}
	for i := range s.Containers {
		names(regular.Index(i), s.Containers[i].Name)
	}
	for i := range s.EphemeralContainers {
		names(ephemeral.Index(i), s.EphemeralContainers[i].Name)
	}

	for i := range s.InitContainers {
		kind := initContainer
		if p := s.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			kind = sidecarContainer
		}
		c.oneContainer(init.Index(i), &s.InitContainers[i], kind)
	}
	for i := range s.Containers {
		c.oneContainer(regular.Index(i), &s.Containers[i], regularContainer)
	}
	for i := range s.EphemeralContainers {
		e := &s.EphemeralContainers[i]
		c.oneContainer(ephemeral.Index(i), (*corev1.Container)(&e.EphemeralContainerCommon), ephemeralContainer)
		c.ephemeral(ephemeral.Index(i), e)
	}
	c.hostPortConflicts(regular)
}

func (c *checker) oneContainer(p *field.Path, ct *corev1.Container, kind containerKind) {
	c.image(p, "image", ct.Image)
	c.pullPolicy(p, "imagePullPolicy", ct.ImagePullPolicy)
	c.name(p, "terminationMessagePath", ct.TerminationMessagePath, func(string) []string { return nil })
	oneOf(c, p, "terminationMessagePolicy", ct.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	c.ports(p.Child("ports"), ct.Ports)
	c.env(p, ct)
	c.mounts(p, ct)
	c.resources(p.Child("resources"), &ct.Resources)
	c.containerSecurity(p.Child("securityContext"), ct)
	c.restartRules(p, ct, kind)
	c.probes(p, ct, kind)
	c.lifecycle(p.Child("lifecycle"), ct.Lifecycle, kind)
}

func (c *checker) image(p *field.Path, child, image string) {
	switch {
	case strings.TrimSpace(image) == "":
		c.required(p, child, "")
	case strings.TrimSpace(image) != image:
		c.invalid(p, child, image, "must not begin or end with white space")
	}
}

func (c *checker) pullPolicy(p *field.Path, child string, policy corev1.PullPolicy) {
	oneOf(c, p, child, policy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

// ephemeral checks what sets an ephemeral container apart: it is only added to
// a running pod and takes nothing from it.
func (c *checker) ephemeral(p *field.Path, e *corev1.EphemeralContainer) {
	if t := e.TargetContainerName; t != "" && !c.hasContainer(t) {
		c.add(field.NotFound(p.Child("targetContainerName"), shorten(t)))
	}
	if len(e.Ports) > 0 {
		c.forbidden(p, "ports", "an ephemeral container has no ports")
	}
	if len(e.Resources.Requests)+len(e.Resources.Limits)+len(e.Resources.Claims) > 0 {
		c.forbidden(p, "resources", "an ephemeral container uses the resources of its pod")
	}
	for i := range e.VolumeMounts {
		if m := &e.VolumeMounts[i]; m.SubPath != "" || m.SubPathExpr != "" {
			c.forbidden(p.Child("volumeMounts").Index(i), "subPath", "an ephemeral container cannot use subPath or subPathExpr")
		}
	}
}

func (c *checker) restartRules(p *field.Path, ct *corev1.Container, kind containerKind) {
	if kind == ephemeralContainer {
		if ct.RestartPolicy != nil {
			c.forbidden(p, "restartPolicy", "an ephemeral container is never restarted")
		}
		if len(ct.RestartPolicyRules) > 0 {
			c.forbidden(p, "restartPolicyRules", "an ephemeral container is never restarted")
		}
		return
	}
	if ct.RestartPolicy != nil {
		oneOf(c, p, "restartPolicy", *ct.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
	} else if len(ct.RestartPolicyRules) > 0 {
		c.required(p, "restartPolicy", "must be set when restartPolicyRules are")
	}
	rp := p.Child("restartPolicyRules")
	if len(ct.RestartPolicyRules) > maxRestartRules {
		c.add(field.TooMany(rp, len(ct.RestartPolicyRules), maxRestartRules))
	}
	for i := range ct.RestartPolicyRules {
		r, ip := &ct.RestartPolicyRules[i], rp.Index(i)
		oneOf(c, ip, "action", r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		if r.ExitCodes == nil {
			c.required(ip, "exitCodes", "")
			continue
		}
		oneOf(c, ip.Child("exitCodes"), "operator", r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			c.add(field.TooMany(ip.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
}

func (c *checker) ports(p *field.Path, ports []corev1.ContainerPort) {
	var seen map[string]bool
	for i := range ports {
		t, pp := &ports[i], p.Index(i)
		inRange(c, pp, "containerPort", t.ContainerPort, 1, math.MaxUint16)
		inRange(c, pp, "hostPort", t.HostPort, 0, math.MaxUint16)
		if c.pod.Spec.HostNetwork && t.HostPort != t.ContainerPort {
			c.invalid(pp, "hostPort", t.HostPort, "must equal containerPort (%d) when hostNetwork is true", t.ContainerPort)
		}
		oneOf(c, pp, "protocol", t.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		if t.HostIP != "" {
			c.ip(pp, "hostIP", t.HostIP)
		}
		if t.Name != "" {
			if seen == nil {
				seen = make(map[string]bool, len(ports))
			}
			c.rule(pp, "name", t.Name, validation.IsValidPortName)
			c.unique(pp, "name", t.Name, seen)
		}
	}
}

// hostPortConflicts finds two containers that ask for one port of the host;
// they run at the same time, so that one of them could never listen.
func (c *checker) hostPortConflicts(p *field.Path) {
	type hostPort struct {
		protocol corev1.Protocol
		ip       string
		port     int32
	}
	var seen map[hostPort]bool
	for i := range c.pod.Spec.Containers {
		ports := c.pod.Spec.Containers[i].Ports
		for j := range ports {
			if ports[j].HostPort == 0 {
				continue
			}
			if seen == nil {
				seen = map[hostPort]bool{}
			}
			k := hostPort{ports[j].Protocol, ports[j].HostIP, ports[j].HostPort}
			if seen[k] {
				c.add(field.Duplicate(p.Index(i).Child("ports").Index(j).Child("hostPort"), k.port))
			}
			seen[k] = true
		}
	}
}
