package projected_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/projected"
	"github.com/podsync/sdk/volumes/volumestest"
)

var (
	secretSource = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "app"},
	}}
	mapSource = corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "app"},
	}}
	downwardSource = corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "meta/name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
	}}}
	tokenSource = corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}}
)

func objects() *volumestest.Objects {
	o := &volumestest.Objects{}
	o.SetSecret("app", map[string]string{"a": "secret", "both": "secret"})
	o.SetConfigMap("app", map[string]string{"b": "map", "both": "map"})
	return o
}

func vol(sources ...corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{Name: "vol", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
}

func TestConformance(t *testing.T) {
	volumestest.Plugin(t, volumestest.Case{
		New:     func() plugin.Plugin { return projected.Plugin{} },
		Volume:  vol(secretSource, mapSource, downwardSource),
		Objects: objects(), Missing: &volumestest.Objects{},
	})
}

type tokens struct {
	value     string
	refreshAt time.Time
	err       error
	asked     []string
}

func (s *tokens) Token(_ context.Context, _ *corev1.Pod, audience string, life time.Duration) (plugin.Token, error) {
	s.asked = append(s.asked, audience+" "+life.String())
	return plugin.Token{Value: s.value, RefreshAt: s.refreshAt}, s.err
}

func request(t *testing.T, sources ...corev1.VolumeProjection) *plugin.Request {
	pod := volumestest.Pod("pod-1", vol(sources...))
	dir := t.TempDir()
	return &plugin.Request{
		Pod: pod, Volume: &pod.Spec.Volumes[0], Dir: filepath.Join(dir, "v", "vol"), MetaDir: filepath.Join(dir, "p", "vol"),
		Objects: objects(),
		Host: plugin.Host{
			Mounter: volumestest.NewMounter(), Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
			Allocatable: func() corev1.ResourceList { return nil },
		},
	}
}

func TestLaterSourceWins(t *testing.T) {
	r := request(t, secretSource, mapSource, downwardSource)
	m, err := projected.Plugin{}.SetUp(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "secret", "b": "map", "both": "map", "meta/name": "pod-1"} {
		if b, err := os.ReadFile(filepath.Join(m.Path, name)); err != nil || string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
}

func TestErrorsOfAllSourcesAreTold(t *testing.T) {
	r := request(t, secretSource, mapSource, tokenSource,
		corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "ca"}},
		corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}, corev1.VolumeProjection{})
	r.Objects = &volumestest.Objects{}
	_, err := projected.Plugin{}.SetUp(t.Context(), r)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`source 0: secret "default/app" not found`, `source 1: config map "default/app" not found`, "source 2: service account tokens",
		"source 3: clusterTrustBundle", "source 4: podCertificate", "source 5",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if !errors.Is(err, projected.ErrNoTokens) || !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("error %v does not match what it is made of", err)
	}
}

func TestToken(t *testing.T) {
	user := func(ids ...int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = nil
			for _, id := range ids {
				c := corev1.Container{}
				if id >= 0 {
					c.SecurityContext = &corev1.SecurityContext{RunAsUser: &id}
				}
				p.Spec.Containers = append(p.Spec.Containers, c)
			}
		}
	}
	self, other := int64(os.Geteuid()), int64(os.Geteuid()+1)
	for _, test := range []struct {
		name    string
		pod     func(*corev1.Pod)
		fsGroup bool
		want    os.FileMode
	}{
		{name: "nobody known", want: 0o644},
		{name: "one user", pod: user(self, self), want: 0o600},
		{name: "different users", pod: user(self, other), want: 0o644},
		{name: "one container does not say", pod: user(self, -1), want: 0o644},
		{name: "user of the pod", pod: func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &self}
		}, want: 0o600},
		{name: "fsGroup adds reading", fsGroup: true, want: 0o640},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := time.Now().Add(time.Hour)
			src := &tokens{value: "jwt", refreshAt: at}
			r := request(t, tokenSource)
			r.Host.Tokens = src
			if test.pod != nil {
				test.pod(r.Pod)
			}
			if gid := int64(os.Getegid()); test.fsGroup {
				r.FSGroup = &gid
			}
			m, err := projected.Plugin{}.SetUp(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			fi, err := os.Stat(filepath.Join(m.Path, "token"))
			if err != nil || fi.Mode() != test.want {
				t.Errorf("mode %v, want %v (%v)", fi.Mode(), test.want, err)
			}
			if !m.RefreshAt.Equal(at) {
				t.Errorf("RefreshAt %v, want %v", m.RefreshAt, at)
			}
			if d := cmp.Diff([]string{"vault 1h0m0s"}, src.asked); d != "" {
				t.Errorf("asked for (-want +got):\n%s", d)
			}
		})
	}
}
