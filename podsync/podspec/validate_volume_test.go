package podspec_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestValidate_volumes(t *testing.T) {
	const item = "spec.volumes[1].configMap.items[0]."
	itemPath := func(path string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { volume(p, "config").ConfigMap.Items[0].Path = path }
	}
	host := func(path string, typ corev1.HostPathType) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { volume(p, "host").HostPath = &corev1.HostPathVolumeSource{Path: path, Type: &typ} }
	}
	projected := func(sources ...corev1.VolumeProjection) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { volume(p, "all").Projected = &corev1.ProjectedVolumeSource{Sources: sources} }
	}
	token := func(path string, seconds int64) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path, ExpirationSeconds: &seconds}}
	}
	named := func(paths ...string) corev1.VolumeProjection {
		d := &corev1.DownwardAPIProjection{}
		for _, p := range paths {
			d.Items = append(d.Items, corev1.DownwardAPIVolumeFile{Path: p, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}})
		}
		return corev1.VolumeProjection{DownwardAPI: d}
	}
	checkRows(t, []row{
		{"no source", func(p *corev1.Pod) { volume(p, "scratch").EmptyDir = nil }, "spec.volumes[0]"},
		{"two sources", func(p *corev1.Pod) { volume(p, "host").EmptyDir = &corev1.EmptyDirVolumeSource{} }, "spec.volumes[3]"},

		{"SEC-01 hostPath climbs", host("/var/log/../../etc", ""), "spec.volumes[3].hostPath.path"},
		{"hostPath with dots in a name", host("/var/..log", "Directory"), ""},
		{"relative hostPath", host("var/log", ""), "spec.volumes[3].hostPath.path"},
		{"no hostPath", host("", ""), "spec.volumes[3].hostPath.path"},
		{"hostPath type", host("/x", "Symlink"), "spec.volumes[3].hostPath.type"},
		{"hostPath with a NUL byte", host("/x\x00y", ""), "spec.volumes[3].hostPath.path"},

		{"SEC-01 item climbs", itemPath("../x"), item + "path"},
		{"SEC-01 item like our own data", itemPath("..x"), item + "path"},
		{"item climbs inside", itemPath("a/../../x"), item + "path"},
		{"item with dots deeper", itemPath("a/..x"), ""},
		{"absolute item", itemPath("/x"), item + "path"},
		{"item without path", itemPath(""), item + "path"},
		{"item with a long element", itemPath("a/" + strings.Repeat("x", 256)), item + "path"},
		{"item key", func(p *corev1.Pod) { volume(p, "config").ConfigMap.Items[0].Key = "../k" }, item + "key"},
		{"item mode", func(p *corev1.Pod) { volume(p, "config").ConfigMap.Items[0].Mode = new(int32(0o1000)) }, item + "mode"},
		{"config map name", func(p *corev1.Pod) { volume(p, "config").ConfigMap.Name = "../x" }, "spec.volumes[1].configMap.name"},
		{"secret name", func(p *corev1.Pod) { volume(p, "tls").Secret.SecretName = "" }, "spec.volumes[2].secret.secretName"},
		{"secret mode", func(p *corev1.Pod) { volume(p, "tls").Secret.DefaultMode = new(int32(-1)) }, "spec.volumes[2].secret.defaultMode"},

		{"memory", func(p *corev1.Pod) {
			volume(p, "scratch").EmptyDir = &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: new(resource.MustParse("1Mi"))}
		}, ""},
		{"huge pages", func(p *corev1.Pod) { volume(p, "scratch").EmptyDir.Medium = "HugePages-2Mi" }, ""},
		{"huge pages of no size", func(p *corev1.Pod) { volume(p, "scratch").EmptyDir.Medium = "HugePages-../x" }, "spec.volumes[0].emptyDir.medium"},
		{"medium", func(p *corev1.Pod) { volume(p, "scratch").EmptyDir.Medium = "Tape" }, "spec.volumes[0].emptyDir.medium"},
		{"size", func(p *corev1.Pod) { volume(p, "scratch").EmptyDir.SizeLimit = new(resource.MustParse("-1")) }, "spec.volumes[0].emptyDir.sizeLimit"},

		{"projected", projected(token("t", 3600), named("a/b", "a-b", "a/c")), ""},
		{"token path climbs", projected(token("../t", 3600)), "spec.volumes[4].projected.sources[0].serviceAccountToken.path"},
		{"token too short", projected(token("t", 599)), "spec.volumes[4].projected.sources[0].serviceAccountToken.expirationSeconds"},
		{"empty source", projected(corev1.VolumeProjection{}), "spec.volumes[4].projected.sources[0]"},
		{"one path twice", projected(token("a/t", 3600), named("a//t")), "spec.volumes[4].projected.sources"},
		{"file and directory", projected(named("a", "a-b", "a/c")), "spec.volumes[4].projected.sources"},

		{"downward field", func(p *corev1.Pod) {
			volume(p, "d").DownwardAPI = &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "a", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}}}
		}, "spec.volumes[4].downwardAPI.items[0].fieldRef.fieldPath"},
		{"downward resource of nobody", func(p *corev1.Pod) {
			volume(p, "d").DownwardAPI = &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "a", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}}
		}, "spec.volumes[4].downwardAPI.items[0].resourceFieldRef.containerName"},
		{"claim", func(p *corev1.Pod) {
			volume(p, "p").PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "../x"}
		}, "spec.volumes[4].persistentVolumeClaim.claimName"},
		{"CSI driver climbs", func(p *corev1.Pod) { volume(p, "p").CSI = &corev1.CSIVolumeSource{Driver: "../x"} }, "spec.volumes[4].csi.driver"},
		{"flex driver climbs", func(p *corev1.Pod) { volume(p, "p").FlexVolume = &corev1.FlexVolumeSource{Driver: "../../bin/sh"} }, "spec.volumes[4].flexVolume.driver"},
	})
}

func TestValidate_mounts(t *testing.T) {
	const mount = "spec.containers[0].volumeMounts[0]."
	change := func(fn func(m *corev1.VolumeMount)) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { fn(&c0(p).VolumeMounts[0]) }
	}
	bidirectional := corev1.MountPropagationBidirectional
	checkRows(t, []row{
		{"of no volume", change(func(m *corev1.VolumeMount) { m.Name = "nothing" }), mount + "name"},
		{"no path", change(func(m *corev1.VolumeMount) { m.MountPath = "" }), mount + "mountPath"},
		{"path with a colon", change(func(m *corev1.VolumeMount) { m.MountPath = "/a:rw" }), mount + "mountPath"},
		{"path climbs", change(func(m *corev1.VolumeMount) { m.MountPath = "/a/../../b" }), mount + "mountPath"},
		{"path twice", change(func(m *corev1.VolumeMount) { m.MountPath = "/etc/web" }), "spec.containers[0].volumeMounts[1].mountPath"},
		{"SEC-01 subPath climbs", change(func(m *corev1.VolumeMount) { m.SubPath = "../../etc" }), mount + "subPath"},
		{"absolute subPath", change(func(m *corev1.VolumeMount) { m.SubPath = "/etc" }), mount + "subPath"},
		{"subPathExpr", change(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(POD_IP)/x" }), ""},
		{"subPathExpr climbs", change(func(m *corev1.VolumeMount) { m.SubPathExpr = "$(A)/../x" }), mount + "subPathExpr"},
		{"subPath and subPathExpr", change(func(m *corev1.VolumeMount) { m.SubPath, m.SubPathExpr = "a", "b" }), mount + "subPathExpr"},
		{"propagation", change(func(m *corev1.VolumeMount) { m.MountPropagation = &bidirectional }), mount + "mountPropagation"},
		{"recursive read-only", change(func(m *corev1.VolumeMount) { m.RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled) }), mount + "recursiveReadOnly"},
		{"mount option", change(func(m *corev1.VolumeMount) { m.BindMountOptions = []string{"noexec", "suid"} }), mount + "bindMountOptions[1]"},
	})
	t.Run("device", func(t *testing.T) {
		checkRows(t, []row{
			{"of no volume", func(p *corev1.Pod) { c0(p).VolumeDevices = []corev1.VolumeDevice{{Name: "x", DevicePath: "/dev/x"}} }, "spec.containers[0].volumeDevices[0].name"},
			{"of a claim", func(p *corev1.Pod) {
				volume(p, "x").PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}
				c0(p).VolumeDevices = []corev1.VolumeDevice{{Name: "x", DevicePath: "/dev/x"}}
			}, ""},
		})
	})
}
