package volumes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/atomicwriter"
	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/volumestest"
)

// The manager sets up what a pod uses, and takes it down by what is on the disk.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	objects := &volumestest.Objects{} // or any podsync.Objects
	objects.SetConfigMap("app", map[string]string{"greeting": "hello"})
	m, err := volumes.New(volumes.Options{
		Layout:  volumes.Layout{Root: root},
		Objects: objects,
		// An agent that is root leaves this out.
		Unprivileged: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := volumestest.Pod("1b4e28ba", corev1.Volume{Name: "cfg", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "app"}},
	}})
	vols, err := m.Mount(ctx, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := vols.HostPath(ctx, "main", 0, pod.Spec.Containers[0].VolumeMounts[0], "")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, _ := os.ReadFile(filepath.Join(dir, "greeting"))
	fmt.Println(strings.TrimPrefix(dir, root), string(b))
	fmt.Println(m.Remove(ctx, pod.UID))
	// Output:
	// /pods/1b4e28ba/volumes/kubernetes.io~configmap/cfg hello
	// <nil>
}

// A pod waits for what it refers to, and says for what.
func ExampleMounted() {
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	m, err := volumes.New(volumes.Options{Layout: volumes.Layout{Root: root}, Unprivileged: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := volumestest.Pod("1b4e28ba", corev1.Volume{Name: "key", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: "tls"},
	}})
	out := volumes.Mounted(m).Run(context.Background(), podsync.NewSync(pod))
	fmt.Println(out, out.Wake())
	// Output: Wait(FailedMount): volume "key": secret "default/tls" not found [ObjectsChanged]
}

// motd is a site's own kind of volume, asked for as an inline CSI volume of a
// driver that does not exist.
type motd struct{ text string }

func (motd) Name() string { return "example.com/motd" }
func (motd) CanSupport(v *corev1.Volume) bool {
	return v.CSI != nil && v.CSI.Driver == "motd.example.com"
}
func (motd) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{ReadOnly: true, FSGroup: true}
}
func (p motd) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	return content.SetUp(ctx, r, atomicwriter.Payload{"motd": {Data: []byte(p.text), Mode: 0o444}}, false)
}
func (motd) TearDown(ctx context.Context, r *plugin.Removal) error { return content.TearDown(ctx, r) }

// A site adds a kind of volume of its own.
func ExampleDefaultPlugins() {
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	m, err := volumes.New(volumes.Options{
		Layout:       volumes.Layout{Root: root},
		Plugins:      append(volumes.DefaultPlugins(), motd{text: "be nice"}),
		Unprivileged: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := volumestest.Pod("1b4e28ba", corev1.Volume{Name: "motd", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: "motd.example.com"},
	}})
	vols, err := m.Mount(context.Background(), pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, _ := vols.HostPath(context.Background(), "main", 0, pod.Spec.Containers[0].VolumeMounts[0], "")
	b, _ := os.ReadFile(filepath.Join(dir, "motd"))
	fmt.Println(string(b))
	// Output: be nice
}

func ExampleLayout() {
	l := volumes.Layout{Root: "/var/lib/agent"}
	dir, err := l.VolumeDir("1b4e28ba", "kubernetes.io/secret", "tls")
	fmt.Println(dir, err)
	_, err = l.PodDir("../../etc")
	fmt.Println(err)
	// Output:
	// /var/lib/agent/pods/1b4e28ba/volumes/kubernetes.io~secret/tls <nil>
	// pod UID "../../etc" cannot name a directory
}
