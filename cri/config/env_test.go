package config_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

// env runs config.Env and gives "NAME=value" lines.
func env(t *testing.T, in config.EnvInput) ([]string, error) {
	t.Helper()
	in.Container = app(in.Pod)
	list, err := config.Env(t.Context(), in)
	var out []string
	for _, e := range list {
		out = append(out, e.Key+"="+string(e.Value))
	}
	return out, err
}

func TestCase_RUN_12_Expansion(t *testing.T) {
	vars := map[string]string{"A": "1", "E": "", "B": "$(A)"}
	for in, want := range map[string]string{
		"$(A)": "1", "$$(A)": "$(A)", "$$$(A)": "$1", "$$$$(A)": "$$(A)", "$$WHAT": "$WHAT", "$A": "$A", "${A}": "${A}",
		"$(MISSING)": "$(MISSING)", "$(A": "$(A", "$": "$", "a$": "a$", "$(E)x": "x", "$(B)": "$(A)",
		"$( A )": "$( A )", "$()": "$()", "pa$$word": "pa$word", "$$$$": "$$", "": "", "$é(A)": "$é(A)",
	} {
		got := config.Expand(in, func(n string) (string, bool) { v, ok := vars[n]; return v, ok })
		if got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}

// The reference is a regular expression that takes the leftmost $$ or $(NAME).
func TestExpandIsLikeTheReference(t *testing.T) {
	re := regexp.MustCompile(`(?s)\$\$|\$\(([^)]*)\)`)
	vars := map[string]string{"A": "1", "B": "$(A)", "": "empty"}
	lookup := func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"$", "(", ")", "A", "B", "$(A)", "x", "é", "\n"})).Draw(t, "parts"), "")
		want := re.ReplaceAllStringFunc(in, func(m string) string {
			if m == "$$" {
				return "$"
			}
			if v, ok := lookup(m[2 : len(m)-1]); ok {
				return v
			}
			return m
		})
		if got := config.Expand(in, lookup); got != want {
			t.Fatalf("Expand(%q) = %q, want %q", in, got, want)
		}
	})
}

func TestCase_RUN_12_ReferencesSeeEarlierEntriesOnly(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		app(p).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
		app(p).Env = []corev1.EnvVar{
			{Name: "EARLY", Value: "$(LATE) $(FROM) $(KUBERNETES_SERVICE_HOST) $(SITE)"},
			{Name: "LATE", Value: "late"},
			{Name: "RAW", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['expr']"}}},
			{Name: "USES", Value: "$(RAW) $(EARLY)"},
			{Name: "LATE", Value: "again $(LATE)"},
		}
		p.Annotations["expr"] = "$(LATE)"
	})
	got, err := env(t, config.EnvInput{
		Pod:     pod,
		Objects: &objects{configMaps: map[string]map[string]string{"cm": {"FROM": "$(LATE)"}}},
		Services: []*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
		}},
		Extra: []podsync.ExtraEnvVar{{Name: "SITE", Value: "s"}, {Name: "FROM", Value: "loses"}, {Container: "other", Name: "NO", Value: "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"FROM=$(LATE)",
		"EARLY=$(LATE) $(LATE) 10.0.0.1 s",
		"LATE=again late",
		"RAW=$(LATE)",
		"USES=$(LATE) $(LATE) $(LATE) 10.0.0.1 s",
		"SITE=s",
		"KUBERNETES_PORT=tcp://10.0.0.1:443",
		"KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443",
		"KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1",
		"KUBERNETES_PORT_443_TCP_PORT=443",
		"KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_SERVICE_HOST=10.0.0.1",
		"KUBERNETES_SERVICE_PORT=443",
		"KUBERNETES_SERVICE_PORT_HTTPS=443",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCase_RUN_13_EnvFrom(t *testing.T) {
	cm := func(name, prefix string, optional bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional}}
	}
	secret := func(name string, optional bool) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional}}
	}
	secretKey := func(name, key string, optional bool) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}}}
	}
	cmKey := func(name, key string, optional bool) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}}}}
	}
	objs := func() *objects {
		return &objects{
			configMaps: map[string]map[string]string{"cm1": {"A": "1", "B": "2"}, "cm2": {"X_A": "3"}},
			secrets:    map[string]map[string]string{"s1": {"P": "x", "Q": "y"}},
		}
	}
	for _, tt := range []struct {
		name    string
		from    []corev1.EnvFromSource
		env     []corev1.EnvVar
		noObjs  bool
		want    []string
		wantErr string
	}{
		{
			name: "later wins, env wins, prefix",
			from: []corev1.EnvFromSource{cm("cm1", "X_", false), cm("cm2", "", false)},
			env:  []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "X_B", Value: "env"}},
			want: []string{"X_A=3", "X_B=env", "A=a"},
		},
		{name: "secret", from: []corev1.EnvFromSource{secret("s1", false)}, want: []string{"P=x", "Q=y"}},
		{name: "optional missing", from: []corev1.EnvFromSource{cm("none", "", true), secret("none", true)}, env: secretKey("none", "k", true)},
		{name: "optional key missing", env: append(secretKey("s1", "none", true), cmKey("cm1", "none", true)...)},
		{name: "required missing", from: []corev1.EnvFromSource{cm("none", "", false)}, wantErr: "config map shop/none"},
		{name: "required secret missing", from: []corev1.EnvFromSource{secret("none", false)}, wantErr: "secret shop/none"},
		{name: "required key missing", env: secretKey("s1", "none", false), wantErr: `no key "none"`},
		{name: "required config key missing", env: cmKey("cm1", "none", false), wantErr: `no key "none"`},
		{name: "keys", env: append(secretKey("s1", "P", false), cmKey("cm1", "B", false)...), want: []string{"V=2"}},
		{name: "optional but broken", from: []corev1.EnvFromSource{cm("broken", "", true)}, wantErr: "connection refused"},
		{name: "optional secret but broken", env: secretKey("broken", "k", true), wantErr: "connection refused"},
		{name: "no objects, required", noObjs: true, env: secretKey("s1", "P", false), wantErr: "no source of API objects"},
		{name: "no objects, optional", noObjs: true, from: []corev1.EnvFromSource{cm("cm1", "", true)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := config.EnvInput{Pod: newPod(func(p *corev1.Pod) { app(p).EnvFrom, app(p).Env = tt.from, tt.env })}
			if !tt.noObjs {
				in.Objects = objs()
			}
			got, err := env(t, in)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || podsync.ReasonOf(err) != "CreateContainerConfigError" {
					t.Fatalf("error %v, reason %q; want %q", err, podsync.ReasonOf(err), tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEnvReadsAnObjectOnce(t *testing.T) {
	o := &objects{configMaps: map[string]map[string]string{"cm": {"A": "1", "B": "2"}}}
	ref := func(k string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Key: k}}
	}
	pod := newPod(func(p *corev1.Pod) {
		app(p).Env = []corev1.EnvVar{{Name: "X", ValueFrom: ref("A")}, {Name: "Y", ValueFrom: ref("B")}}
	})
	if _, err := env(t, config.EnvInput{Pod: pod, Objects: o}); err != nil || o.calls != 1 {
		t.Errorf("%d calls, %v", o.calls, err)
	}
}

func TestEnvCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	pod := newPod(func(p *corev1.Pod) {
		app(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
	})
	cancel()
	_, err := config.Env(ctx, config.EnvInput{Pod: pod, Container: app(pod), Objects: canceling{}})
	if podsync.FromErr(err).Kind() != podsync.KindCanceled || podsync.ReasonOf(err) != "" {
		t.Errorf("got %v", err)
	}
}

type canceling struct{ podsync.Objects }

func (canceling) Secret(ctx context.Context, _, _ string) (*corev1.Secret, error) {
	return nil, fmt.Errorf("get: %w", ctx.Err())
}

func TestEnvFieldRef(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "robot" })
	node := &config.Node{Name: "n1", IPs: []string{"192.0.2.1", "2001:db8::1"}}
	for _, tt := range []struct{ path, want string }{
		{"metadata.name", "web"}, {"metadata.namespace", "shop"}, {"metadata.uid", testUID},
		{"metadata.labels['tier']", "front"}, {"metadata.labels['none']", ""}, {"metadata.annotations['note']", "hello"},
		{"spec.nodeName", "n1"}, {"spec.serviceAccountName", "robot"},
		{"status.hostIP", "192.0.2.1"}, {"status.hostIPs", "192.0.2.1,2001:db8::1"},
		{"status.podIP", "10.1.0.2"}, {"status.podIPs", "10.1.0.2,fd00::2"},
	} {
		app(pod).Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: tt.path}}}}
		got, err := env(t, config.EnvInput{Pod: pod, Node: node, PodIPs: []string{"10.1.0.2", "fd00::2"}})
		if err != nil || len(got) != 1 || got[0] != "V="+tt.want {
			t.Errorf("%s: %v, %v", tt.path, got, err)
		}
	}
	for _, path := range []string{"metadata.labels", "metadata.labels['x", "spec.containers", "status.hostIP", ""} {
		app(pod).Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}}
		if got, err := env(t, config.EnvInput{Pod: pod}); err == nil {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestEnvResourceFieldRef(t *testing.T) {
	node := &config.Node{Allocatable: quantities("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "hugepages-2Mi", "1Gi")}
	for _, tt := range []struct {
		resource, divisor, container string
		podLimits                    corev1.ResourceList
		want                         string
	}{
		{resource: "limits.cpu", want: "2"},
		{resource: "limits.cpu", divisor: "1m", want: "1500"},
		{resource: "requests.cpu", want: "1"},
		{resource: "requests.cpu", divisor: "1m", want: "250"},
		{resource: "requests.memory", want: "67108864"},
		{resource: "requests.memory", divisor: "1Mi", want: "64"},
		{resource: "limits.memory", divisor: "1Gi", want: "8"},
		{resource: "limits.memory", divisor: "1Gi", podLimits: quantities("memory", "2Gi"), want: "2"},
		{resource: "limits.ephemeral-storage", divisor: "1Gi", podLimits: quantities("memory", "2Gi"), want: "100"},
		{resource: "limits.hugepages-2Mi", want: "0"},
		{resource: "requests.memory", container: "side", want: "1"},
		{resource: "limits.cpu", container: "nobody"},
		{resource: "limits.gpu"},
		{resource: "sizes.cpu"},
		{resource: "cpu"},
		{resource: "limits.memory", divisor: "1m", want: fmt.Sprint(8 << 30)}, // rounds up to 1
		{resource: "limits.cpu", divisor: "-1"},
	} {
		pod := newPod(func(p *corev1.Pod) {
			app(p).Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "250m", "memory", "64Mi"), Limits: quantities("cpu", "1500m")}
			p.Spec.InitContainers = []corev1.Container{{Name: "side", Resources: corev1.ResourceRequirements{Requests: quantities("memory", "1")}}}
			if tt.podLimits != nil {
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: tt.podLimits}
			}
			ref := &corev1.ResourceFieldSelector{Resource: tt.resource, ContainerName: tt.container}
			if tt.divisor != "" {
				ref.Divisor = resource.MustParse(tt.divisor)
			}
			app(p).Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: ref}}}
		})
		got, err := env(t, config.EnvInput{Pod: pod, Node: node})
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s/%s: %v", tt.resource, tt.divisor, got)
			}
			continue
		}
		if err != nil || got[0] != "V="+tt.want {
			t.Errorf("%s/%s: %v, %v; want %s", tt.resource, tt.divisor, got, err, tt.want)
		}
	}
}

func TestEnvFileKeyRef(t *testing.T) {
	file := "# note\n\n  A='1'\nMULTI='x\ny' # end\nEMPTY=''\nSHELL= 'no'\nLAST='z'"
	for _, tt := range []struct {
		key, file string
		optional  bool
		want      string
		wantErr   bool
	}{
		{key: "A", want: "V=1"}, {key: "MULTI", want: "V=x\ny"}, {key: "EMPTY", want: "V="}, {key: "SHELL", want: "V="}, {key: "LAST", want: "V=z"},
		{key: "NONE", wantErr: true}, {key: "NONE", optional: true},
		{key: "X", file: "A=1", wantErr: true}, {key: "X", file: "A='1", wantErr: true}, {key: "X", file: "A ='1'", wantErr: true},
		{key: "X", file: "A='1' b", wantErr: true}, {key: "X", file: "junk", wantErr: true}, {key: "X", file: "='1'", wantErr: true}, {key: "X", file: "X=", wantErr: true},
	} {
		pod := newPod(func(p *corev1.Pod) {
			app(p).Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "vol", Path: "env", Key: tt.key, Optional: &tt.optional}}}}
		})
		got, err := env(t, config.EnvInput{Pod: pod, ReadVolumeFile: func(_ context.Context, volume, path string) ([]byte, error) {
			if volume != "vol" || path != "env" {
				t.Errorf("asked for %s of %s", path, volume)
			}
			if tt.file != "" {
				return []byte(tt.file), nil
			}
			return []byte(file), nil
		}})
		if (err != nil) != tt.wantErr || strings.Join(got, "|") != tt.want {
			t.Errorf("%q in %q: %q, %v", tt.key, tt.file, got, err)
		}
	}
	pod := newPod(func(p *corev1.Pod) {
		app(p).Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}}}
	})
	if _, err := env(t, config.EnvInput{Pod: pod}); err == nil {
		t.Error("fileKeyRef with no reader was accepted")
	}
}

func TestEnvRefusesWhatNoProcessTakes(t *testing.T) {
	for _, e := range []corev1.EnvVar{{Name: "", Value: "x"}, {Name: "A=B", Value: "x"}, {Name: "A", Value: "x\x00y"}} {
		pod := newPod(func(p *corev1.Pod) { app(p).Env = []corev1.EnvVar{e} })
		if got, err := env(t, config.EnvInput{Pod: pod}); err == nil {
			t.Errorf("accepted %q", got)
		}
	}
}

func TestEnvServices(t *testing.T) {
	svc := func(ns, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	port := corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolUDP}
	services := []*corev1.Service{
		svc("shop", "my-db", "10.0.0.5", port), svc("shop", "headless", "None", port), svc("shop", "portless", "10.0.0.6"),
		svc("other", "x", "10.0.0.7", port), svc("default", "kubernetes", "10.0.0.1", port), svc("default", "y", "10.0.0.8", port),
	}
	pod := newPod()
	hosts := func(extra ...*corev1.Service) string {
		got, err := env(t, config.EnvInput{Pod: pod, Services: append(services, extra...)})
		if err != nil {
			t.Fatal(err)
		}
		var h []string
		for _, e := range got {
			if strings.Contains(e, "_SERVICE_HOST=") {
				h = append(h, e)
			}
		}
		return strings.Join(h, " ")
	}
	if got := hosts(); got != "KUBERNETES_SERVICE_HOST=10.0.0.1 MY_DB_SERVICE_HOST=10.0.0.5" {
		t.Error(got)
	}
	if got := hosts(svc("shop", "kubernetes", "10.0.0.9", port)); got != "KUBERNETES_SERVICE_HOST=10.0.0.9 MY_DB_SERVICE_HOST=10.0.0.5" {
		t.Error(got)
	}
	pod.Spec.EnableServiceLinks = ptr(false)
	if got := hosts(svc("shop", "kubernetes", "10.0.0.9", port)); got != "KUBERNETES_SERVICE_HOST=10.0.0.1" {
		t.Error(got)
	}
}

// Equal input gives equal output, whatever the order of maps.
func TestEnvIsDeterministic(t *testing.T) {
	data := map[string]string{}
	for i := range 40 {
		data[fmt.Sprintf("K%02d", i)] = fmt.Sprint(i)
	}
	pod := newPod(func(p *corev1.Pod) {
		app(p).EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
		app(p).Env = []corev1.EnvVar{{Name: "K07", Value: "x$(K39)"}}
	})
	in := config.EnvInput{Pod: pod, Objects: &objects{configMaps: map[string]map[string]string{"cm": data}}}
	first, err := env(t, in)
	if err != nil || len(first) != 40 || first[7] != "K07=x39" {
		t.Fatal(first, err)
	}
	for range 20 {
		again, err := env(t, in)
		if d := cmp.Diff(first, again); d != "" || err != nil {
			t.Fatal(d, err)
		}
	}
}
