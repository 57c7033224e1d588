package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

func TestMountsGolden(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}}}
		app(p).VolumeMounts = []corev1.VolumeMount{
			{Name: "data", MountPath: "/data", MountPropagation: ptr(corev1.MountPropagationBidirectional)},
			{Name: "conf", MountPath: "etc/app", ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyIfPossible)},
			{Name: "logs", MountPath: "/logs/", SubPathExpr: "$(POD)/x", MountPropagation: ptr(corev1.MountPropagationHostToContainer)},
			{Name: "model", MountPath: "/model", SubPath: "weights"},
			{Name: "secret", MountPath: "/secret"},
		}
	})
	image := &runtimeapi.ImageSpec{Image: "sha256:m"}
	got, err := config.Mounts(t.Context(), config.MountsInput{
		Pod: pod, Container: app(pod), Volumes: volumes{readOnly: map[string]bool{"secret": true}},
		Dirs: podsync.Dirs{EtcHosts: "/pods/etc-hosts"}, Env: kv("POD", "web"), PodIPs: []string{"10.0.0.2"},
		TerminationFile: "/pods/containers/app/0", RecursiveReadOnly: true, SELinux: true,
		Images: map[string]*runtimeapi.ImageSpec{"model": image},
		Extra: []podsync.ExtraMount{
			{ContainerPath: "/dev/usb", HostPath: "/dev/bus"},
			{Container: "other", ContainerPath: "/no"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []*runtimeapi.Mount{
		{ContainerPath: "/data", HostPath: "/pods/data", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		{ContainerPath: "/etc/app", HostPath: "/pods/conf", Readonly: true, RecursiveReadOnly: true},
		{ContainerPath: "/logs", HostPath: "/pods/logs/subpaths/app/2/web/x", Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{ContainerPath: "/model", Image: image, ImageSubPath: "weights", Readonly: true},
		{ContainerPath: "/secret", HostPath: "/pods/secret", Readonly: true},
		{ContainerPath: "/etc/hosts", HostPath: "/pods/etc-hosts", SelinuxRelabel: true},
		{ContainerPath: "/dev/termination-log", HostPath: "/pods/containers/app/0", SelinuxRelabel: true},
		{ContainerPath: "/dev/usb", HostPath: "/dev/bus"},
	}, got)
}

func TestMountsErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mount corev1.VolumeMount
		in    config.MountsInput
		want  string
	}{
		{"absolute subPath", corev1.VolumeMount{SubPath: "/etc"}, config.MountsInput{}, "relative"},
		{"back step", corev1.VolumeMount{SubPath: "a/../../b"}, config.MountsInput{}, "'..'"},
		{"NUL", corev1.VolumeMount{SubPath: "a\x00"}, config.MountsInput{}, "NUL"},
		{"expanded back step", corev1.VolumeMount{SubPathExpr: "$(UP)"}, config.MountsInput{Env: kv("UP", "..")}, "'..'"},
		{"unknown variable", corev1.VolumeMount{SubPathExpr: "a/$(NOPE)"}, config.MountsInput{}, "NOPE"},
		{"expands to nothing", corev1.VolumeMount{SubPathExpr: "$(E)"}, config.MountsInput{Env: kv("E", "")}, "empty"},
		{"propagation", corev1.VolumeMount{MountPropagation: ptr(corev1.MountPropagationMode("Both"))}, config.MountsInput{}, "Both"},
		{"recursive without readOnly", corev1.VolumeMount{RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyEnabled)}, config.MountsInput{}, "needs readOnly"},
		{"recursive with propagation", corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyEnabled), MountPropagation: ptr(corev1.MountPropagationBidirectional)}, config.MountsInput{}, "does not go with"},
		{"recursive unsupported", corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyEnabled)}, config.MountsInput{}, "cannot do it"},
		{"recursive unknown", corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(corev1.RecursiveReadOnlyMode("x"))}, config.MountsInput{}, "unknown"},
		{"no volumes", corev1.VolumeMount{}, config.MountsInput{}, "no mounted volumes"},
		{"volume fails", corev1.VolumeMount{}, config.MountsInput{Volumes: volumes{fail: errors.New("not mounted")}}, "not mounted"},
		{"image volume", corev1.VolumeMount{Name: "img"}, config.MountsInput{}, "image is not on the node"},
		{"site's mount on it", corev1.VolumeMount{}, config.MountsInput{Volumes: volumes{}, Extra: []podsync.ExtraMount{{ContainerPath: "/m/"}}}, "already"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(func(p *corev1.Pod) {
				tt.mount.MountPath = "/m"
				if tt.mount.Name == "" {
					tt.mount.Name = "vol"
				}
				p.Spec.Volumes = []corev1.Volume{{Name: "img", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}}}
				app(p).VolumeMounts = []corev1.VolumeMount{tt.mount}
			})
			tt.in.Pod, tt.in.Container = pod, app(pod)
			_, err := config.Mounts(t.Context(), tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) || podsync.ReasonOf(err) != config.ReasonConfig {
				t.Errorf("error %v, reason %q; want %q", err, podsync.ReasonOf(err), tt.want)
			}
		})
	}
}

func TestMountsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pod := newPod(func(p *corev1.Pod) { app(p).VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}} })
	_, err := config.Mounts(ctx, config.MountsInput{Pod: pod, Container: app(pod), Volumes: volumes{fail: context.Canceled}})
	if podsync.FromErr(err).Kind() != podsync.KindCanceled {
		t.Errorf("got %v", err)
	}
}

func TestMountsIDMapped(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) { app(p).VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}} })
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	got, err := config.Mounts(t.Context(), config.MountsInput{
		Pod: pod, Container: app(pod), Volumes: volumes{},
		UserNamespace: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids},
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []*runtimeapi.Mount{{ContainerPath: "/v", HostPath: "/pods/v", UidMappings: ids, GidMappings: ids}}, got)
}

func TestCase_VOL_15_HostsFile(t *testing.T) {
	ips := []string{"10.0.0.2", "fd00::2"}
	managed := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	aliases := []corev1.HostAlias{{IP: "10.0.0.9", Hostnames: []string{"a", "b"}}}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Pod)
		ips  []string
		// mounted tells whether the container gets the file.
		mounted bool
		want    string
	}{
		{
			name: "(a) own mount", ips: ips,
			edit: func(p *corev1.Pod) {
				app(p).VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/etc//hosts/"}}
			},
			want: managed + "10.0.0.2\tweb\nfd00::2\tweb\n",
		},
		{
			name: "(b) aliases", ips: ips, mounted: true,
			edit: func(p *corev1.Pod) { p.Spec.HostAliases = aliases },
			want: managed + "10.0.0.2\tweb\nfd00::2\tweb\n\n# Entries added by HostAliases.\n10.0.0.9\ta\tb\n",
		},
		{
			name: "(b) subdomain", ips: ips[:1], mounted: true,
			edit: func(p *corev1.Pod) { p.Spec.Subdomain = "sub" },
			want: managed + "10.0.0.2\tweb.sub.shop.svc.cluster.local\tweb\n",
		},
		{
			name: "(c) host network", mounted: true,
			edit: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostAliases = true, aliases },
			want: "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n\n# Entries added by HostAliases.\n10.0.0.9\ta\tb\n",
		},
		{name: "(d) no address", edit: func(*corev1.Pod) {}, want: managed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.edit)
			got, err := config.HostsFile(pod, &config.Node{ClusterDomain: "cluster.local"}, tt.ips, []byte("127.0.0.1 node\n"))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, string(got)); d != "" {
				t.Error(d)
			}
			if got := config.WantsHostsFile(pod, app(pod), tt.ips); got != tt.mounted {
				t.Errorf("mounted %v, want %v", got, tt.mounted)
			}
		})
	}
}

func TestSiteMountOfEtcHostsWins(t *testing.T) {
	pod := newPod()
	got, err := config.Mounts(t.Context(), config.MountsInput{
		Pod: pod, Container: app(pod), PodIPs: []string{"10.0.0.2"}, Dirs: podsync.Dirs{EtcHosts: "/x"}, Extra: []podsync.ExtraMount{{ContainerPath: "/etc/hosts", HostPath: "/site/hosts"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []*runtimeapi.Mount{{ContainerPath: "/etc/hosts", HostPath: "/site/hosts"}}, got)
}

func TestCase_SEC_05_HostsFileIsRewrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc-hosts")
	if err := config.WriteHostsFile(path, []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil || before.Mode().Perm() != 0o644 {
		t.Fatal(before.Mode(), err)
	}
	// A container grew it and changed its mode.
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.WriteHostsFile(path, []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.Mode().Perm() != 0o644 {
		t.Errorf("another file, or mode %v, %v", after.Mode(), err)
	}
	if got, _ := os.ReadFile(path); string(got) != "two\n" {
		t.Errorf("content %q", got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := config.WriteHostsFile(link, []byte("three\n")); err == nil {
		t.Error("it followed a link")
	}
	if err := config.WriteHostsFile(t.TempDir(), []byte("x")); err == nil {
		t.Error("it wrote to a directory")
	}
}
