package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultFileMode is the mode of projected files that give none.
const defaultFileMode int32 = 0o644

// Default sets in place the fields that the API server would have set in a pod
// that was posted to it, as far as a node agent reads them: restart and DNS
// policy, grace, the security context, service links, scheduler, the service
// account's old name, container ports, probes, termination message, image pull
// policy, requests from limits (container and pod level) and the volumes' modes.
// What the API server leaves to admission plugins (service account token
// volumes, priority, default tolerations, namespace limits) and what it takes
// from the request (namespace, name, UID) is not touched.
//
// It is idempotent, and costs no allocation on a pod that is already defaulted.
// It works on any input, valid or not.
func Default(pod *corev1.Pod) {
	spec := &pod.Spec
	defaultPodSpec(spec)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		defaultContainer(c)
		requestsFromLimits(&c.Resources)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		defaultContainer(c)
		requestsFromLimits(&c.Resources)
	}
	for i := range spec.EphemeralContainers {
		// The common part has the very fields of a Container; its resources must
		// be empty, so that nothing is derived for them.
		defaultContainer((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	roundUp(spec.Overhead)
	defaultPodResources(spec)
	if spec.HostNetwork {
		defaultHostPorts(spec.InitContainers)
		defaultHostPorts(spec.Containers)
	}
}

func defaultPodSpec(s *corev1.PodSpec) {
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	if s.EnableServiceLinks == nil {
		s.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	// serviceAccount is the old name of serviceAccountName; the API keeps both equal.
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = DefaultPullPolicy(c.Image)
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	for i := range c.Env {
		if c.Env[i].ValueFrom != nil {
			defaultFieldRef(c.Env[i].ValueFrom.FieldRef)
		}
	}
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if l := c.Lifecycle; l != nil {
		defaultHandler(l.PostStart)
		defaultHandler(l.PreStop)
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
}

// DefaultPullPolicy returns the pull policy of an image that gives none: Always
// for the tag "latest", be it written or implied, else IfNotPresent. A colon
// before the last slash is a registry's port; a digest without a tag pins the
// content, so that there is nothing to pull again.
func DefaultPullPolicy(image string) corev1.PullPolicy {
	name, _, digested := strings.Cut(image, "@")
	last := name[strings.LastIndexByte(name, '/')+1:]
	_, tag, tagged := strings.Cut(last, ":")
	if tag == "latest" || !tagged && !digested {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	if p.TimeoutSeconds == 0 {
		p.TimeoutSeconds = 1
	}
	if p.PeriodSeconds == 0 {
		p.PeriodSeconds = 10
	}
	if p.SuccessThreshold == 0 {
		p.SuccessThreshold = 1
	}
	if p.FailureThreshold == 0 {
		p.FailureThreshold = 3
	}
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil && p.GRPC.Service == nil {
		p.GRPC.Service = new("")
	}
}

func defaultHandler(h *corev1.LifecycleHandler) {
	if h != nil {
		defaultHTTPGet(h.HTTPGet)
	}
}

func defaultHTTPGet(h *corev1.HTTPGetAction) {
	if h == nil {
		return
	}
	if h.Path == "" {
		h.Path = "/"
	}
	if h.Scheme == "" {
		h.Scheme = corev1.URISchemeHTTP
	}
}

func defaultFieldRef(f *corev1.ObjectFieldSelector) {
	if f != nil && f.APIVersion == "" {
		f.APIVersion = "v1"
	}
}

func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if p := &containers[i].Ports[j]; p.HostPort == 0 {
				p.HostPort = p.ContainerPort
			}
		}
	}
}

// requestsFromLimits gives each limited resource without a request the limit as
// its request.
func requestsFromLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = make(corev1.ResourceList, len(r.Limits))
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// roundUp rounds quantities up to a thousandth, the API's finest unit.
func roundUp(l corev1.ResourceList) {
	for name, q := range l {
		if r := q.DeepCopy(); !r.RoundUp(resource.Milli) {
			l[name] = r
		}
	}
}
