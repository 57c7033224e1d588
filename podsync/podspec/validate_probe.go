package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *checker) probes(p *field.Path, ct *corev1.Container, kind containerKind) {
	for _, pr := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", ct.LivenessProbe}, {"readinessProbe", ct.ReadinessProbe}, {"startupProbe", ct.StartupProbe}} {
		if pr.probe == nil {
			continue
		}
		if kind == initContainer || kind == ephemeralContainer {
			c.forbidden(p, pr.name, "only a container that is kept running has probes")
			continue
		}
		c.probe(p.Child(pr.name), pr.probe)
		if pr.probe == ct.ReadinessProbe {
			if pr.probe.TerminationGracePeriodSeconds != nil {
				c.forbidden(p.Child(pr.name), "terminationGracePeriodSeconds", "a readiness probe terminates nothing")
			}
		} else if pr.probe.SuccessThreshold != 1 {
			c.invalid(p.Child(pr.name), "successThreshold", pr.probe.SuccessThreshold, "must be 1")
		}
	}
}

func (c *checker) probe(p *field.Path, pr *corev1.Probe) {
	inRange(c, p, "initialDelaySeconds", pr.InitialDelaySeconds, 0, math.MaxInt32)
	inRange(c, p, "timeoutSeconds", pr.TimeoutSeconds, 1, math.MaxInt32)
	inRange(c, p, "periodSeconds", pr.PeriodSeconds, 1, math.MaxInt32)
	inRange(c, p, "successThreshold", pr.SuccessThreshold, 1, math.MaxInt32)
	inRange(c, p, "failureThreshold", pr.FailureThreshold, 1, math.MaxInt32)
	if g := pr.TerminationGracePeriodSeconds; g != nil {
		inRange(c, p, "terminationGracePeriodSeconds", *g, 1, math.MaxInt64)
	}
	c.exactlyOne(p, "handler", &pr.ProbeHandler)
	c.handler(p, pr.Exec, pr.HTTPGet, pr.TCPSocket)
	if pr.GRPC != nil {
		inRange(c, p.Child("grpc"), "port", pr.GRPC.Port, 1, math.MaxUint16)
	}
}

// handler checks the handlers that probes and lifecycle hooks share.
func (c *checker) handler(p *field.Path, exec *corev1.ExecAction, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
	if exec != nil && len(exec.Command) == 0 {
		c.required(p.Child("exec"), "command", "")
	}
	if tcp != nil {
		c.port(p.Child("tcpSocket"), tcp.Port)
	}
	if http == nil {
		return
	}
	p = p.Child("httpGet")
	if http.Path == "" {
		c.required(p, "path", "")
	}
	c.port(p, http.Port)
	oneOf(c, p, "scheme", http.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	for i := range http.HTTPHeaders {
		c.name(p.Child("httpHeaders").Index(i), "name", http.HTTPHeaders[i].Name, validation.IsHTTPHeaderName)
	}
}

func (c *checker) port(p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		c.rule(p, "port", port.StrVal, validation.IsValidPortName)
		return
	}
	inRange(c, p, "port", port.IntVal, 1, math.MaxUint16)
}

func (c *checker) lifecycle(p *field.Path, l *corev1.Lifecycle, kind containerKind) {
	if l == nil {
		return
	}
	if kind == initContainer || kind == ephemeralContainer {
		c.forbidden(p, "", "only a container that is kept running has a lifecycle")
		return
	}
	if l.StopSignal != nil && !isSignalName(string(*l.StopSignal)) {
		c.invalid(p, "stopSignal", string(*l.StopSignal), "must be the name of a signal, as in SIGTERM")
	}
	c.hook(p.Child("postStart"), l.PostStart)
	c.hook(p.Child("preStop"), l.PreStop)
}

func (c *checker) hook(p *field.Path, h *corev1.LifecycleHandler) {
	if h == nil {
		return
	}
	c.exactlyOne(p, "handler", h)
	c.handler(p, h.Exec, h.HTTPGet, h.TCPSocket)
	if h.Sleep == nil {
		return
	}
	grace := int64(math.MaxInt32)
	if g := c.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = max(*g, 0)
	}
	inRange(c, p.Child("sleep"), "seconds", h.Sleep.Seconds, 0, grace)
}

// isSignalName tells whether s has the form of a signal's name: SIGTERM or
// SIGRTMIN+3. Whether the signal exists is the runtime's to say.
func isSignalName(s string) bool {
	name, ok := strings.CutPrefix(s, "SIG")
	return ok && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !('A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-')
	})
}
