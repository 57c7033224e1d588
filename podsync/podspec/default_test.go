package podspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestDefault_setsWhatTheAPIServerSets(t *testing.T) {
	in := `{"metadata":{"name":"a"},"spec":{"serviceAccount":"builder","hostNetwork":true,
	"volumes":[{"name":"e"},{"name":"c","configMap":{"name":"c"}},{"name":"s","secret":{"secretName":"s"}},
	 {"name":"h","hostPath":{"path":"/h"}},{"name":"d","downwardAPI":{"items":[{"path":"n","fieldRef":{"fieldPath":"metadata.name"}}]}},
	 {"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t"}},{"downwardAPI":{"items":[{"path":"n","fieldRef":{"fieldPath":"metadata.name"}}]}}]}},
	 {"name":"i","image":{"reference":"x:latest"}}],
	"initContainers":[{"name":"i","image":"a/b@sha256:0","resources":{"limits":{"memory":"1Mi"}}}],
	"containers":[{"name":"c","image":"app","ports":[{"containerPort":80}],
	 "env":[{"name":"N","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
	 "resources":{"limits":{"cpu":"1","memory":"1Mi"},"requests":{"cpu":"0.0001"}},
	 "livenessProbe":{"httpGet":{"port":80}},"startupProbe":{"grpc":{"port":1}},
	 "lifecycle":{"preStop":{"httpGet":{"port":80}}}}],
	"ephemeralContainers":[{"name":"dbg","image":"dbg:1"}]}}`
	want := `{"metadata":{"name":"a"},"spec":{"serviceAccount":"builder","serviceAccountName":"builder","hostNetwork":true,
	"restartPolicy":"Always","dnsPolicy":"ClusterFirst","securityContext":{},"terminationGracePeriodSeconds":30,
	"schedulerName":"default-scheduler","enableServiceLinks":true,
	"volumes":[{"name":"e","emptyDir":{}},{"name":"c","configMap":{"name":"c","defaultMode":420}},{"name":"s","secret":{"secretName":"s","defaultMode":420}},
	 {"name":"h","hostPath":{"path":"/h","type":""}},{"name":"d","downwardAPI":{"defaultMode":420,"items":[{"path":"n","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}]}},
	 {"name":"p","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":3600}},{"downwardAPI":{"items":[{"path":"n","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}]}}]}},
	 {"name":"i","image":{"reference":"x:latest","pullPolicy":"Always"}}],
	"initContainers":[{"name":"i","image":"a/b@sha256:0","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
	 "resources":{"limits":{"memory":"1Mi"},"requests":{"memory":"1Mi"}}}],
	"containers":[{"name":"c","image":"app","imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
	 "ports":[{"containerPort":80,"hostPort":80,"protocol":"TCP"}],
	 "env":[{"name":"N","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
	 "resources":{"limits":{"cpu":"1","memory":"1Mi"},"requests":{"cpu":"1m","memory":"1Mi"}},
	 "livenessProbe":{"httpGet":{"path":"/","port":80,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
	 "startupProbe":{"grpc":{"port":1,"service":""},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
	 "lifecycle":{"preStop":{"httpGet":{"path":"/","port":80,"scheme":"HTTP"}}}}],
	"ephemeralContainers":[{"name":"dbg","image":"dbg:1","imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","resources":{}}]}}`
	var pod, wantPod corev1.Pod
	if err := json.Unmarshal([]byte(in), &pod); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wantPod); err != nil {
		t.Fatal(err)
	}
	podspec.Default(&pod)
	if d := cmp.Diff(mustJSON(t, wantPod), mustJSON(t, pod)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDefault_keepsWhatIsSet(t *testing.T) {
	in := `{"spec":{"restartPolicy":"Never","dnsPolicy":"Default","terminationGracePeriodSeconds":0,"schedulerName":"mine","enableServiceLinks":false,
	"serviceAccountName":"new","serviceAccount":"old",
	"volumes":[{"name":"c","configMap":{"name":"c","defaultMode":256}},{"name":"n","nfs":{"server":"s","path":"/"}}],
	"containers":[{"name":"c","image":"app","imagePullPolicy":"Never","terminationMessagePath":"/x","terminationMessagePolicy":"FallbackToLogsOnError",
	 "ports":[{"containerPort":80,"hostPort":81,"protocol":"UDP"}],"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}},
	 "readinessProbe":{"httpGet":{"path":"/r","scheme":"HTTPS","port":1},"timeoutSeconds":7,"periodSeconds":8,"successThreshold":2,"failureThreshold":9}}]}}`
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(in), &pod); err != nil {
		t.Fatal(err)
	}
	want := pod.DeepCopy()
	want.Spec.DeprecatedServiceAccount = "new" // the new name wins, both stay equal
	want.Spec.SecurityContext = &corev1.PodSecurityContext{}
	podspec.Default(&pod)
	if d := cmp.Diff(mustJSON(t, want), mustJSON(t, &pod)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDefaultPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for _, tt := range []struct {
		name, image string
		want        corev1.PullPolicy
	}{
		{"IMG-08 port, no tag", "registry.local:5000/app", corev1.PullAlways},
		{"IMG-08 no tag", "app", corev1.PullAlways},
		{"IMG-08 tag", "app:1", corev1.PullIfNotPresent},
		{"IMG-08 latest", "app:latest", corev1.PullAlways},
		{"IMG-08 digest", "app" + digest, corev1.PullIfNotPresent},
		{"IMG-08 latest and digest", "app:latest" + digest, corev1.PullAlways},
		{"IMG-08 port and latest", "registry.local:5000/a/b:latest", corev1.PullAlways},
		{"port and digest", "registry.local:5000/a/b" + digest, corev1.PullIfNotPresent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := podspec.DefaultPullPolicy(tt.image); got != tt.want {
				t.Errorf("pull policy of %q: want %s, got %s", tt.image, tt.want, got)
			}
		})
	}
}

func TestDefault_podLevelResources(t *testing.T) {
	list := func(kv ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(kv); i += 2 {
			l[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
		}
		return l
	}
	for _, tt := range []struct {
		name            string
		pod, containers corev1.ResourceRequirements
		want            corev1.ResourceRequirements
	}{
		{name: "limit alone becomes the request",
			pod:  corev1.ResourceRequirements{Limits: list("cpu", "2")},
			want: corev1.ResourceRequirements{Limits: list("cpu", "2"), Requests: list("cpu", "2")}},
		{name: "the containers' requests come first",
			pod:        corev1.ResourceRequirements{Limits: list("cpu", "2", "memory", "1Gi")},
			containers: corev1.ResourceRequirements{Requests: list("cpu", "300m")},
			want:       corev1.ResourceRequirements{Limits: list("cpu", "2", "memory", "1Gi"), Requests: list("cpu", "600m", "memory", "1Gi")}},
		{name: "requests alone stay as they are",
			pod:        corev1.ResourceRequirements{Requests: list("cpu", "2")},
			containers: corev1.ResourceRequirements{Requests: list("memory", "1Mi")},
			want:       corev1.ResourceRequirements{Requests: list("cpu", "2")}},
		{name: "huge pages",
			pod:        corev1.ResourceRequirements{Limits: list("cpu", "1")},
			containers: corev1.ResourceRequirements{Limits: list("cpu", "100m", "hugepages-2Mi", "4Mi"), Requests: list("cpu", "100m")},
			want:       corev1.ResourceRequirements{Limits: list("cpu", "1", "hugepages-2Mi", "8Mi"), Requests: list("cpu", "200m", "hugepages-2Mi", "8Mi")}},
		{name: "none", pod: corev1.ResourceRequirements{}, containers: corev1.ResourceRequirements{Limits: list("cpu", "1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := minimal()
			p.Spec.Resources = &tt.pod
			p.Spec.Containers[0].Resources = *tt.containers.DeepCopy()
			p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
			podspec.Default(p)
			if d := cmp.Diff(mustJSON(t, tt.want), mustJSON(t, p.Spec.Resources)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestDefault_isIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod().Draw(t, "pod")
		podspec.Default(pod)
		once := pod.DeepCopy()
		podspec.Default(pod)
		if d := cmp.Diff(once, pod); d != "" {
			t.Fatalf("the second Default changed the pod, -once +twice:\n%s", d)
		}
	})
}

func TestDefault_allocatesNothingTheSecondTime(t *testing.T) {
	p := defaulted(typical())
	if n := testing.AllocsPerRun(100, func() { podspec.Default(p) }); n != 0 {
		t.Errorf("allocations on a defaulted pod: want 0, got %v", n)
	}
}

func BenchmarkDefault(b *testing.B) {
	b.Run("defaulted", func(b *testing.B) {
		p := defaulted(typical())
		b.ReportAllocs()
		for b.Loop() {
			podspec.Default(p)
		}
	})
	b.Run("fresh", func(b *testing.B) {
		p := typical()
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			q := p.DeepCopy()
			b.StartTimer()
			podspec.Default(q)
		}
	})
}
