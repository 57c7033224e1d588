package config_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

func securityOf(t *testing.T, pod *corev1.Pod, node *config.Node, img config.Image) (*runtimeapi.LinuxContainerSecurityContext, error) {
	t.Helper()
	got, err := config.Container(config.ContainerInput{Pod: pod, Container: app(pod), Node: node, Image: img})
	if err != nil && podsync.ReasonOf(err) != config.ReasonConfig {
		t.Errorf("error without the reason: %v", err)
	}
	return got.GetLinux().GetSecurityContext(), err
}

func TestCase_SEC_03_SeccompNeverFallsBackToUnconfined(t *testing.T) {
	local := func(name *string) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: name}
	}
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	for _, tt := range []struct {
		name           string
		container, pod *corev1.SeccompProfile
		nodeDefault    bool
		want           *runtimeapi.SecurityProfile
	}{
		{name: "none", want: unconfined},
		{name: "none, node default", nodeDefault: true, want: &runtimeapi.SecurityProfile{}},
		{name: "container over pod", container: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}, pod: local(ptr("x.json")), want: unconfined},
		{name: "pod", pod: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, want: &runtimeapi.SecurityProfile{}},
		// The runtime, not this code, finds that a profile is missing on disk.
		{name: "local", container: local(ptr("dir/ok.json")), want: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/profiles/dir/ok.json"}},
		{name: "local empty", container: local(ptr(""))},
		{name: "local missing", pod: local(nil)},
		{name: "traversal", container: local(ptr("../../x"))},
		{name: "hidden traversal", container: local(ptr("a/../../x"))},
		{name: "dot", container: local(ptr("."))},
		{name: "absolute", container: local(ptr("/abs"))},
		{name: "unknown type", container: &corev1.SeccompProfile{Type: "Sometimes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				app(p).SecurityContext = &corev1.SecurityContext{SeccompProfile: tt.container}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: tt.pod}
			})
			got, err := securityOf(t, pod, &config.Node{SeccompRoot: "/profiles", SeccompDefault: tt.nodeDefault}, config.Image{})
			if tt.want == nil {
				if err == nil {
					t.Fatalf("accepted as %v", got.Seccomp)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, tt.want, got.Seccomp)
		})
	}
}

func TestRunAsNonRoot(t *testing.T) {
	for _, tt := range []struct {
		name           string
		container, pod *bool
		user, podUser  *int64
		image          config.Image
		ok             bool
	}{
		{name: "not asked, root", image: config.Image{UID: ptr(int64(0))}, ok: true},
		{name: "container says no", container: ptr(false), pod: ptr(true), image: config.Image{UID: ptr(int64(0))}, ok: true},
		{name: "user 0", container: ptr(true), user: ptr(int64(0))},
		{name: "pod user 0", container: ptr(true), podUser: ptr(int64(0))},
		{name: "container user over pod's", pod: ptr(true), user: ptr(int64(9)), podUser: ptr(int64(0)), ok: true},
		{name: "image root", pod: ptr(true), image: config.Image{UID: ptr(int64(0))}},
		{name: "image name", pod: ptr(true), image: config.Image{Username: "www"}},
		{name: "image name, user set", pod: ptr(true), user: ptr(int64(9)), image: config.Image{Username: "www"}, ok: true},
		{name: "image number", pod: ptr(true), image: config.Image{UID: ptr(int64(math.MaxInt32))}, ok: true},
		{name: "image number too big", pod: ptr(true), image: config.Image{UID: ptr(int64(math.MaxInt32 + 1))}},
		{name: "image number negative", pod: ptr(true), image: config.Image{UID: ptr(int64(-1))}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				app(p).SecurityContext = &corev1.SecurityContext{RunAsNonRoot: tt.container, RunAsUser: tt.user}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: tt.pod, RunAsUser: tt.podUser}
			})
			if _, err := securityOf(t, pod, nil, tt.image); (err == nil) != tt.ok {
				t.Errorf("error %v, want ok %v", err, tt.ok)
			}
		})
	}
}

func TestUserFallsBackToImage(t *testing.T) {
	pod := newPod()
	got, err := securityOf(t, pod, nil, config.Image{UID: ptr(int64(65532))})
	if err != nil || got.RunAsUser.GetValue() != 65532 || got.RunAsUsername != "" {
		t.Errorf("user %v %q, %v", got.RunAsUser, got.RunAsUsername, err)
	}
	app(pod).SecurityContext = &corev1.SecurityContext{RunAsUser: ptr(int64(1))}
	if got, _ = securityOf(t, pod, nil, config.Image{Username: "www"}); got.RunAsUser.GetValue() != 1 || got.RunAsUsername != "" {
		t.Errorf("user %v %q", got.RunAsUser, got.RunAsUsername)
	}
}

func TestAppArmor(t *testing.T) {
	field := func(typ corev1.AppArmorProfileType, name *string) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: typ, LocalhostProfile: name}
	}
	for _, tt := range []struct {
		name           string
		container, pod *corev1.AppArmorProfile
		annotation     string
		want           string
		wantErr        bool
	}{
		{name: "none"},
		{name: "field", container: field("Localhost", ptr("p")), annotation: "unconfined", want: "localhost/p"},
		{name: "annotation over pod", annotation: "localhost/a", pod: field("Unconfined", nil), want: "localhost/a"},
		{name: "pod", pod: field("RuntimeDefault", nil), want: "runtime/default"},
		{name: "unconfined", annotation: "unconfined", want: "unconfined"},
		{name: "junk annotation", annotation: "junk"},
		{name: "empty localhost", annotation: "localhost/", wantErr: true},
		{name: "missing localhost", pod: field("Localhost", nil), wantErr: true},
		{name: "unknown", pod: field("Maybe", nil), wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				app(p).SecurityContext = &corev1.SecurityContext{AppArmorProfile: tt.container}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: tt.pod}
				if tt.annotation != "" {
					p.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+"app"] = tt.annotation
				}
			})
			got, err := securityOf(t, pod, nil, config.Image{})
			if (err != nil) != tt.wantErr || got.GetApparmorProfile() != tt.want {
				t.Errorf("got %q, %v", got.GetApparmorProfile(), err)
			}
		})
	}
}

func TestProcMount(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		app(p).SecurityContext = &corev1.SecurityContext{ProcMount: ptr(corev1.UnmaskedProcMount)}
	})
	node := &config.Node{MaskedPaths: []string{"/sys/x"}}
	if got, err := securityOf(t, pod, node, config.Image{}); err != nil || len(got.MaskedPaths)+len(got.ReadonlyPaths) != 0 {
		t.Errorf("unmasked: %v, %v", got, err)
	}
	app(pod).SecurityContext.ProcMount = ptr(corev1.DefaultProcMount)
	if got, err := securityOf(t, pod, node, config.Image{}); err != nil || len(got.MaskedPaths) != 13 || got.MaskedPaths[12] != "/sys/x" {
		t.Errorf("default: %v, %v", got, err)
	}
}
