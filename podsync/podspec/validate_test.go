package podspec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync/podspec"
)

// row is a change to the typical pod, and the one field that is then wrong.
type row struct {
	name   string
	change func(p *corev1.Pod)
	// field is the path of the fault, "" if the pod is valid.
	field string
}

func checkRows(t *testing.T, rows []row) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			p := defaulted(typical())
			tt.change(p)
			err := podspec.Validate(p)
			if tt.field == "" {
				if err != nil {
					t.Fatalf("want valid, got %v", err)
				}
				return
			}
			var inv *podspec.InvalidError
			if !errors.As(err, &inv) {
				t.Fatalf("want an InvalidError about %s, got %v", tt.field, err)
			}
			if inv.Errs[0].Field != tt.field {
				t.Errorf("want a fault in %s, got %v", tt.field, err)
			}
			if len(inv.Errs) != 1 {
				t.Errorf("want one fault, got %d: %v", len(inv.Errs), err)
			}
			if inv.Error() == "" || len(inv.Error()) > 4096 {
				t.Errorf("want a text that can be read, got %d bytes", len(inv.Error()))
			}
		})
	}
}

// c0 and v give short access to the typical pod's first container and volumes.
func c0(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }

func volume(p *corev1.Pod, name string) *corev1.Volume {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return &p.Spec.Volumes[i]
		}
	}
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name})
	return &p.Spec.Volumes[len(p.Spec.Volumes)-1]
}

func TestValidate_names(t *testing.T) {
	long := strings.Repeat("x", 63)
	checkRows(t, []row{
		{"the typical pod", func(p *corev1.Pod) {}, ""},
		{"SEC-01 name climbs", func(p *corev1.Pod) { p.Name = "../../etc" }, "metadata.name"},
		{"SEC-01 name in upper case", func(p *corev1.Pod) { p.Name = "Web_App" }, "metadata.name"},
		{"no name", func(p *corev1.Pod) { p.Name = "" }, "metadata.name"},
		{"SEC-01 namespace climbs", func(p *corev1.Pod) { p.Namespace = "../x" }, "metadata.namespace"},
		{"no namespace", func(p *corev1.Pod) { p.Namespace = "" }, "metadata.namespace"},
		{"SEC-01 container name climbs", func(p *corev1.Pod) { c0(p).Name = "../c" }, "spec.containers[0].name"},
		{"container name with dots", func(p *corev1.Pod) { c0(p).Name = "a.b" }, "spec.containers[0].name"},
		{"container name twice", func(p *corev1.Pod) { c0(p).Name = "log" }, "spec.containers[0].name"},
		{"init container name climbs", func(p *corev1.Pod) { p.Spec.InitContainers[0].Name = ".." }, "spec.initContainers[0].name"},
		{"SEC-01 volume name climbs", func(p *corev1.Pod) { volume(p, "../v").EmptyDir = &corev1.EmptyDirVolumeSource{} }, "spec.volumes[4].name"},
		{"volume name twice", func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, *p.Spec.Volumes[0].DeepCopy())
		}, "spec.volumes[4].name"},
		{"log directory too long", func(p *corev1.Pod) {
			p.Name, p.UID = strings.Join([]string{long, long, long}, "."), types.UID(strings.Repeat("a", 60))
		}, "metadata.name"},
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, "spec.containers"},
		{"label key", func(p *corev1.Pod) { p.Labels["a b"] = "x" }, "metadata.labels"},
		{"label value", func(p *corev1.Pod) { p.Labels["a"] = "x/y" }, "metadata.labels"},
		{"annotation key", func(p *corev1.Pod) { p.Annotations["a b"] = "x" }, "metadata.annotations"},
		{"annotation size", func(p *corev1.Pod) { p.Annotations["a"] = strings.Repeat("x", 256<<10) }, "metadata.annotations"},
		{"node name", func(p *corev1.Pod) { p.Spec.NodeName = "a/b" }, "spec.nodeName"},
		{"service account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "../x" }, "spec.serviceAccountName"},
		{"pull secret", func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "../x"}} }, "spec.imagePullSecrets[0].name"},
		{"runtime class", func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("") }, "spec.runtimeClassName"},
		{"node selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "/"} }, "spec.nodeSelector"},
	})
}

func TestValidate_uid(t *testing.T) {
	for _, tt := range []struct {
		name, uid string
		ok        bool
	}{
		{"from an API server", "d4ab1f5c-6d52-4d5c-a2d4-0f7a3a0c5f52", true},
		{"from a hash", "7f0a3c7e6f5b4a39b1c2d3e4f5061728", true},
		{"by hand", "Web-1", true},
		{"longest", strings.Repeat("a", 128), true},
		{"too long", strings.Repeat("a", 129), false},
		{"none", "", false},
		{"CGR-07 underscore", "a_b", false},
		{"CGR-07 slash", "a/b", false},
		{"SEC-01 climbs", "../../../tmp/x", false},
		{"dots only", "..", false},
		{"dot inside", "a.slice", false},
		{"leading dash", "-rf", false},
		{"trailing dash", "a-", false},
		{"white space", "a b", false},
		{"NUL", "a\x00b", false},
		{"not ASCII", "ä", false},
		{"line break", "a\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := podspec.CheckUID(tt.uid) == ""; got != tt.ok {
				t.Errorf("CheckUID(%q) finds it valid: want %v, got %v", tt.uid, tt.ok, got)
			}
			p := defaulted(minimal())
			p.UID = types.UID(tt.uid)
			err := podspec.Validate(p)
			if got := err == nil; got != tt.ok {
				t.Errorf("want valid %v, got %v", tt.ok, err)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("want a printable text, got %q", err)
			}
		})
	}
}

func TestValidate_spec(t *testing.T) {
	option := func(name, value string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: name, Value: &value}}}
		}
	}
	checkRows(t, []row{
		{"restart policy", func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" }, "spec.restartPolicy"},
		{"dns policy", func(p *corev1.Pod) { p.Spec.DNSPolicy = "Mine" }, "spec.dnsPolicy"},
		{"dns policy None without servers", func(p *corev1.Pod) { p.Spec.DNSPolicy = "None" }, "spec.dnsConfig.nameservers"},
		{"dns policy None", func(p *corev1.Pod) {
			p.Spec.DNSPolicy = "None"
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"10.0.0.1", "fd00::1"}, Searches: []string{"a.b.", ".", "_x.y"}}
		}, ""},
		{"nameserver", func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"x"}} }, "spec.dnsConfig.nameservers[0]"},
		{"four nameservers", func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}}
		}, "spec.dnsConfig.nameservers"},
		{"search", func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"a b"}} }, "spec.dnsConfig.searches[0]"},
		{"33 searches", func(p *corev1.Pod) {
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: strings.Split(strings.Repeat("a,", 32)+"a", ",")}
		}, "spec.dnsConfig.searches"},
		{"searches too long", func(p *corev1.Pod) {
			d := strings.Repeat(strings.Repeat("x", 60)+".", 4) + "x"
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{d, d, d, d, d, d, d, d, d}}
		}, "spec.dnsConfig.searches"},
		{"resolver option", option("ndots", "2"), ""},
		{"resolver option adds a line", option("ndots", "2\nnameserver 6.6.6.6"), "spec.dnsConfig.options[0].value"},
		{"resolver option without name", option("", "2"), "spec.dnsConfig.options[0].name"},
		{"active deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(0)) }, "spec.activeDeadlineSeconds"},
		{"grace", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(-1)) }, "spec.terminationGracePeriodSeconds"},
		{"grace of zero", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) }, ""},
		{"deletion grace", func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(-1)) }, "metadata.deletionGracePeriodSeconds"},
		{"hostname", func(p *corev1.Pod) { p.Spec.Hostname = "a.b" }, "spec.hostname"},
		{"subdomain", func(p *corev1.Pod) { p.Spec.Subdomain = "a/b" }, "spec.subdomain"},
		{"hostname override", func(p *corev1.Pod) { p.Spec.HostnameOverride = new("a.b") }, ""},
		{"hostname override too long", func(p *corev1.Pod) { p.Spec.HostnameOverride = new(strings.Repeat("a.", 32) + "a") }, "spec.hostnameOverride"},
		{"hostname override on the host's network", func(p *corev1.Pod) {
			p.Spec.HostnameOverride, p.Spec.HostNetwork, c0(p).Ports = new("a"), true, nil
		}, "spec.hostnameOverride"},
		{"host alias", func(p *corev1.Pod) {
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a"}}}
		}, ""},
		{"host alias address", func(p *corev1.Pod) { p.Spec.HostAliases = []corev1.HostAlias{{IP: "x"}} }, "spec.hostAliases[0].ip"},
		{"host alias adds a line", func(p *corev1.Pod) {
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a\n6.6.6.6 b"}}}
		}, "spec.hostAliases[0].hostnames[0]"},
		{"operating system", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }, "spec.os.name"},
		{"toleration of everything", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, ""},
		{"toleration without key", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{}} }, "spec.tolerations[0].operator"},
		{"toleration effect", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Effect: "Maybe"}} }, "spec.tolerations[0].effect"},
		{"toleration time", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Effect: "NoSchedule", TolerationSeconds: new(int64(1))}}
		}, "spec.tolerations[0].effect"},
		{"toleration value", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists", Value: "x"}}
		}, "spec.tolerations[0].value"},
		{"claim with two sources", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("a"), ResourceClaimTemplateName: new("a")}}
		}, "spec.resourceClaims[0]"},
		{"overhead", func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("-1")} }, "spec.overhead[cpu]"},
	})
}

func TestValidate_isBoundedAndReadable(t *testing.T) {
	p := defaulted(minimal())
	for range 1000 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: strings.Repeat("X", 1<<16), Image: " "})
	}
	err := podspec.Validate(p)
	var inv *podspec.InvalidError
	if !errors.As(err, &inv) {
		t.Fatalf("want an InvalidError, got %v", err)
	}
	if len(inv.Errs) > 64 || inv.More == 0 || len(err.Error()) > 32<<10 {
		t.Errorf("want a bounded error, got %d faults, %d more, %d bytes", len(inv.Errs), inv.More, len(err.Error()))
	}
	if inv.Reason() != "FailedValidation" {
		t.Errorf("want reason FailedValidation, got %s", inv.Reason())
	}
	var fe *field.Error
	if !errors.As(err, &fe) {
		t.Error("want the single faults to be found by errors.As")
	}
}

func TestValidate_showsNoEnvironmentValue(t *testing.T) {
	p := defaulted(minimal())
	c0(p).Env = []corev1.EnvVar{{Name: "a=b", Value: "hunter2"},
		{Name: "B", Value: "hunter2", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}
	err := podspec.Validate(p)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("want an error without the value, got %v", err)
	}
}

func TestValidate_isPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod().Draw(t, "pod")
		podspec.Default(pod)
		before := mustJSONRapid(t, pod)
		first, second := podspec.Validate(pod), podspec.Validate(pod)
		if a, b := text(first), text(second); a != b {
			t.Fatalf("two answers for one pod:\n%s\n%s", a, b)
		}
		if after := mustJSONRapid(t, pod); before != after {
			t.Fatalf("Validate changed the pod:\n%s\n%s", before, after)
		}
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func mustJSONRapid(t *rapid.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzPod feeds the package whatever decodes as a pod.
func FuzzPod(f *testing.F) {
	for _, p := range []*corev1.Pod{minimal(), typical(), defaulted(typical())} {
		b, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"metadata":{"uid":"../x"},"spec":{"volumes":[{"projected":{"sources":[{}]}}],"containers":[{"volumeMounts":[{"subPath":"/.."}]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var pod corev1.Pod
		if json.Unmarshal(data, &pod) != nil {
			return
		}
		podspec.Default(&pod)
		err := podspec.Validate(&pod)
		_ = podspec.QOS(&pod)
		if err == nil {
			// What is valid is safe to make a directory of.
			for _, name := range []string{pod.Name, pod.Namespace, string(pod.UID)} {
				if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
					t.Fatalf("accepted %q", name)
				}
			}
			if n := len(pod.Namespace + "_" + pod.Name + "_" + string(pod.UID)); n > 255 {
				t.Fatalf("accepted a log directory of %d bytes", n)
			}
		}
		if podspec.ApplyStaticDefaults(&pod, podspec.Static{Node: "n", SourceName: "file", Origin: "/x", File: true}) == nil && pod.UID == "" {
			t.Fatal("a static pod without UID")
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	p := defaulted(typical())
	b.ReportAllocs()
	for b.Loop() {
		if err := podspec.Validate(p); err != nil {
			b.Fatal(err)
		}
	}
}
