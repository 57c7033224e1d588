package podspec_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestValidate_containers(t *testing.T) {
	const first = "spec.containers[0]."
	always := corev1.ContainerRestartPolicyAlways
	env := func(e corev1.EnvVar) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { c0(p).Env = []corev1.EnvVar{e} }
	}
	from := func(s corev1.EnvVarSource) func(p *corev1.Pod) { return env(corev1.EnvVar{Name: "A", ValueFrom: &s}) }
	ref := func(path string) func(p *corev1.Pod) {
		return from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}})
	}
	resourceRef := func(container, name string) func(p *corev1.Pod) {
		return from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}})
	}
	checkRows(t, []row{
		{"no image", func(p *corev1.Pod) { c0(p).Image = "  " }, first + "image"},
		{"image with a line break", func(p *corev1.Pod) { c0(p).Image = "a\n" }, first + "image"},
		{"pull policy", func(p *corev1.Pod) { c0(p).ImagePullPolicy = "Often" }, first + "imagePullPolicy"},
		{"termination message policy", func(p *corev1.Pod) { c0(p).TerminationMessagePolicy = "x" }, first + "terminationMessagePolicy"},
		{"restart policy of a container", func(p *corev1.Pod) { c0(p).RestartPolicy = new(corev1.ContainerRestartPolicy("x")) }, first + "restartPolicy"},
		{"restart rules without policy", func(p *corev1.Pod) {
			c0(p).RestartPolicyRules = []corev1.ContainerRestartRule{{Action: "Restart", ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}
		}, first + "restartPolicy"},
		{"restart rule's action", func(p *corev1.Pod) {
			c0(p).RestartPolicy = &always
			c0(p).RestartPolicyRules = []corev1.ContainerRestartRule{{Action: "x", ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: "In"}}}
		}, first + "restartPolicyRules[0].action"},

		{"container port", func(p *corev1.Pod) { c0(p).Ports[0].ContainerPort = 70000 }, first + "ports[0].containerPort"},
		{"host port", func(p *corev1.Pod) { c0(p).Ports[0].HostPort = -1 }, first + "ports[0].hostPort"},
		{"port protocol", func(p *corev1.Pod) { c0(p).Ports[0].Protocol = "tcp" }, first + "ports[0].protocol"},
		{"port name", func(p *corev1.Pod) { c0(p).Ports[0].Name = "HTTP" }, first + "ports[0].name"},
		{"port name twice", func(p *corev1.Pod) { c0(p).Ports = append(c0(p).Ports, c0(p).Ports[0]) }, first + "ports[1].name"},
		{"port's host address", func(p *corev1.Pod) { c0(p).Ports[0].HostIP = "localhost" }, first + "ports[0].hostIP"},
		{"CFG-10 host network", func(p *corev1.Pod) { p.Spec.HostNetwork, c0(p).Ports[0].HostPort = true, 8080 }, ""},
		{"CFG-10 host network with another port", func(p *corev1.Pod) { p.Spec.HostNetwork, c0(p).Ports[0].HostPort = true, 81 }, first + "ports[0].hostPort"},
		{"one host port for two", func(p *corev1.Pod) {
			c0(p).Ports[0].HostPort = 80
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			p.Spec.Containers[1].Name = "other"
		}, "spec.containers[1].ports[0].hostPort"},

		{"env name", env(corev1.EnvVar{Name: "A=B"}), first + "env[0].name"},
		{"env name of other characters", env(corev1.EnvVar{Name: "a.b-c/d"}), ""},
		{"env without name", env(corev1.EnvVar{}), first + "env[0].name"},
		{"env without source", from(corev1.EnvVarSource{}), first + "env[0].valueFrom"},
		{"env field", ref("metadata.labels['a/b']"), ""},
		{"env annotation", ref("metadata.annotations['X']"), ""},
		{"env field unknown", ref("spec.containers"), first + "env[0].valueFrom.fieldRef.fieldPath"},
		{"env field subscript", ref("metadata.labels['a b']"), first + "env[0].valueFrom.fieldRef.fieldPath"},
		{"env field of a volume", ref("metadata.labels"), first + "env[0].valueFrom.fieldRef.fieldPath"},
		{"env resource", resourceRef("", "limits.cpu"), ""},
		{"env resource unknown", resourceRef("web", "limits.gpu"), first + "env[0].valueFrom.resourceFieldRef.resource"},
		{"env resource of nobody", resourceRef("nobody", "limits.cpu"), first + "env[0].valueFrom.resourceFieldRef.containerName"},
		{"env secret climbs", from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "../x"}, Key: "k"}}),
			first + "env[0].valueFrom.secretKeyRef.name"},
		{"env key climbs", from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Key: "../k"}}),
			first + "env[0].valueFrom.configMapKeyRef.key"},
		{"env file", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "scratch", Path: "a/b", Key: "K"}}), ""},
		{"env file climbs", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "scratch", Path: "a/../../b", Key: "K"}}),
			first + "env[0].valueFrom.fileKeyRef.path"},
		{"env file of the host", from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "host", Path: "a", Key: "K"}}),
			first + "env[0].valueFrom.fileKeyRef.volumeName"},
		{"envFrom", func(p *corev1.Pod) {
			c0(p).EnvFrom = []corev1.EnvFromSource{{Prefix: "A_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}
		}, ""},
		{"envFrom without source", func(p *corev1.Pod) { c0(p).EnvFrom = []corev1.EnvFromSource{{}} }, first + "envFrom[0]"},
		{"envFrom climbs", func(p *corev1.Pod) {
			c0(p).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "../a"}}}}
		}, first + "envFrom[0].configMapRef.name"},

		{"probe without handler", func(p *corev1.Pod) { c0(p).LivenessProbe.HTTPGet = nil }, first + "livenessProbe"},
		{"probe with two handlers", func(p *corev1.Pod) { c0(p).LivenessProbe.Exec = &corev1.ExecAction{Command: []string{"a"}} }, first + "livenessProbe"},
		{"probe port", func(p *corev1.Pod) { c0(p).LivenessProbe.HTTPGet.Port = intstr.FromInt32(0) }, first + "livenessProbe.httpGet.port"},
		{"probe period", func(p *corev1.Pod) { c0(p).LivenessProbe.PeriodSeconds = -1 }, first + "livenessProbe.periodSeconds"},
		{"liveness success threshold", func(p *corev1.Pod) { c0(p).LivenessProbe.SuccessThreshold = 2 }, first + "livenessProbe.successThreshold"},
		{"readiness success threshold", func(p *corev1.Pod) { c0(p).ReadinessProbe.SuccessThreshold = 2 }, ""},
		{"readiness grace", func(p *corev1.Pod) { c0(p).ReadinessProbe.TerminationGracePeriodSeconds = new(int64(1)) }, first + "readinessProbe.terminationGracePeriodSeconds"},
		{"probe of an init container", func(p *corev1.Pod) { p.Spec.InitContainers[0].LivenessProbe = c0(p).LivenessProbe }, "spec.initContainers[0].livenessProbe"},
		{"probe of a sidecar", func(p *corev1.Pod) { p.Spec.InitContainers[1].StartupProbe = c0(p).LivenessProbe }, ""},
		{"hook of an init container", func(p *corev1.Pod) { p.Spec.InitContainers[0].Lifecycle = &corev1.Lifecycle{} }, "spec.initContainers[0].lifecycle"},
		{"hook", func(p *corev1.Pod) {
			c0(p).Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1), PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 30}}}
		}, ""},
		{"hook longer than the grace", func(p *corev1.Pod) {
			c0(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 31}}}
		}, first + "lifecycle.preStop.sleep.seconds"},
		{"hook without command", func(p *corev1.Pod) {
			c0(p).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
		}, first + "lifecycle.preStop.exec.command"},
		{"stop signal", func(p *corev1.Pod) { c0(p).Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.Signal("9; rm"))} }, first + "lifecycle.stopSignal"},

		{"ephemeral container", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg", "web")}
		}, ""},
		{"ephemeral container's target", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg", "nobody")}
		}, "spec.ephemeralContainers[0].targetContainerName"},
		{"ephemeral container's name", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("web", "")}
		}, "spec.ephemeralContainers[0].name"},
		{"ephemeral container's restart policy", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{ephemeral("dbg", "")}
			p.Spec.EphemeralContainers[0].RestartPolicy = &always
		}, "spec.ephemeralContainers[0].restartPolicy"},
	})
}

func ephemeral(name, target string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{TargetContainerName: target, EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: name, Image: "dbg", ImagePullPolicy: "Always", TerminationMessagePath: "/dev/x", TerminationMessagePolicy: "File"}}
}

func TestValidate_resources(t *testing.T) {
	const res = "spec.containers[0].resources."
	set := func(requests, limits string) func(p *corev1.Pod) {
		list := func(s string) corev1.ResourceList {
			l := corev1.ResourceList{}
			for kv := range strings.FieldsSeq(s) {
				k, v, _ := strings.Cut(kv, "=")
				l[corev1.ResourceName(k)] = resource.MustParse(v)
			}
			return l
		}
		return func(p *corev1.Pod) {
			c0(p).Resources = corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
		}
	}
	podLevel := func(requests string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(requests)}}
		}
	}
	checkRows(t, []row{
		{"request above limit", set("cpu=2", "cpu=1"), res + "requests[cpu]"},
		{"negative", set("cpu=-1", ""), res + "requests[cpu]"},
		{"name without domain", set("", "gpu=1"), res + "limits"},
		{"extended", set("example.com/gpu=2", "example.com/gpu=2"), ""},
		{"extended, fraction", set("", "example.com/gpu=1500m"), res + "limits[example.com/gpu]"},
		{"extended, overcommitted", set("example.com/gpu=1", "example.com/gpu=2"), res + "requests[example.com/gpu]"},
		{"extended, not limited", set("example.com/gpu=1", ""), res + "limits"},
		{"extended, very many", set("", "example.com/gpu=9E"), ""},
		{"huge pages alone", set("hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi"), "spec.containers[0].resources"},
		{"huge pages", set("cpu=1 hugepages-2Mi=4Mi", "cpu=1 hugepages-2Mi=4Mi"), ""},
		{"huge pages of no size", set("cpu=1", "hugepages-x=4Mi"), res + "limits"},
		{"claim of nothing", func(p *corev1.Pod) { c0(p).Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} }, res + "claims[0].name"},
		{"pod level below the containers", podLevel("100m"), "spec.resources.requests[cpu]"},
		{"pod level", podLevel("1"), ""},
	})
}

func TestValidate_security(t *testing.T) {
	seccomp := func(typ corev1.SeccompProfileType, profile *string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			c0(p).SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: typ, LocalhostProfile: profile}
		}
	}
	const profile = "spec.containers[0].securityContext.seccompProfile.localhostProfile"
	sysctl := func(names ...string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, n := range names {
				p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: n, Value: "1"})
			}
		}
	}
	checkRows(t, []row{
		{"SEC-03 empty profile", seccomp("Localhost", new("")), profile},
		{"SEC-03 no profile", seccomp("Localhost", nil), profile},
		{"SEC-03 profile climbs", seccomp("Localhost", new("../../x")), profile},
		{"SEC-03 absolute profile", seccomp("Localhost", new("/abs")), profile},
		{"SEC-03 profile", seccomp("Localhost", new("ok.json")), ""},
		{"profile of another type", seccomp("RuntimeDefault", new("ok.json")), profile},
		{"seccomp type", seccomp("None", nil), "spec.containers[0].securityContext.seccompProfile.type"},
		{"SEC-03 pod's profile", func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: "Localhost"} },
			"spec.securityContext.seccompProfile.localhostProfile"},
		{"AppArmor", func(p *corev1.Pod) {
			c0(p).SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: "Localhost"}
		},
			"spec.containers[0].securityContext.appArmorProfile.localhostProfile"},
		{"sysctls", sysctl("net.ipv4.tcp_syncookies", "kernel/shm_rmid_forced", "net.ipv4.conf.eth0-1.x"), ""},
		{"sysctl twice", sysctl("net.core.x", "net/core/x"), "spec.securityContext.sysctls[1].name"},
		{"sysctl climbs", sysctl("net/../../x"), "spec.securityContext.sysctls[0].name"},
		{"sysctl ends", sysctl("net."), "spec.securityContext.sysctls[0].name"},
		{"sysctl of the host's network", func(p *corev1.Pod) {
			sysctl("net.core.somaxconn")(p)
			p.Spec.HostNetwork, c0(p).Ports = true, nil
		}, "spec.securityContext.sysctls[0].name"},
		{"user", func(p *corev1.Pod) { c0(p).SecurityContext.RunAsUser = new(int64(-1)) }, "spec.containers[0].securityContext.runAsUser"},
		{"group", func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = new(int64(1 << 40)) }, "spec.securityContext.fsGroup"},
		{"more groups", func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroups = []int64{-1} }, "spec.securityContext.supplementalGroups[0]"},
		{"user namespace on the host's network", func(p *corev1.Pod) {
			p.Spec.HostUsers, p.Spec.HostNetwork, c0(p).Ports = new(false), true, nil
		}, "spec.hostNetwork"},
		{"escalation", func(p *corev1.Pod) {
			c0(p).SecurityContext.Privileged, c0(p).SecurityContext.AllowPrivilegeEscalation = new(true), new(false)
		}, "spec.containers[0].securityContext.allowPrivilegeEscalation"},
		{"unmasked proc", func(p *corev1.Pod) { c0(p).SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) }, "spec.containers[0].securityContext.procMount"},
	})
}
