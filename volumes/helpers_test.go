package volumes_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

// node is a manager on fakes, with what it needs to be made again as after a
// restart of the agent.
type node struct {
	t       testing.TB
	root    string
	mounter *volumestest.Mounter
	objects *volumestest.Objects
	options volumes.Options
	m       *volumes.Manager
}

func newNode(t testing.TB) *node {
	n := &node{t: t, root: t.TempDir(), mounter: volumestest.NewMounter(), objects: &volumestest.Objects{}}
	n.options = volumes.Options{Layout: volumes.Layout{Root: n.root}, Mounter: n.mounter, Objects: n.objects}
	n.restart()
	return n
}

// newRealNode is a node with real mounts, below a private tmpfs of that size.
func newRealNode(t testing.TB, size string) *node {
	n := &node{t: t, objects: &volumestest.Objects{}}
	n.root = filepath.Join(volumestest.RealRoot(t, size), "agent")
	n.options = volumes.Options{Layout: volumes.Layout{Root: n.root}, Objects: n.objects}
	n.restart()
	return n
}

func (n *node) restart() {
	n.t.Helper()
	m, err := volumes.New(n.options)
	if err != nil {
		n.t.Fatal(err)
	}
	n.m = m
}

func (n *node) mount(pod *corev1.Pod) podsync.Volumes {
	n.t.Helper()
	v, err := n.m.Mount(n.ctx(), pod)
	if err != nil {
		n.t.Fatalf("Mount: %v", err)
	}
	return v
}

func (n *node) ctx() context.Context { return n.t.(interface{ Context() context.Context }).Context() }

func (n *node) unmount(uid types.UID) {
	n.t.Helper()
	if err := n.m.Unmount(n.ctx(), uid); err != nil {
		n.t.Fatalf("Unmount: %v", err)
	}
}

func (n *node) remove(uid types.UID) {
	n.t.Helper()
	if err := n.m.Remove(n.ctx(), uid); err != nil {
		n.t.Fatalf("Remove: %v", err)
	}
	if exists(n.podDir(uid)) {
		n.t.Errorf("after Remove %s is still there", n.podDir(uid))
	}
}

func (n *node) podDir(uid types.UID) string { return filepath.Join(n.root, "pods", string(uid)) }

// path returns where a volume is on the host.
func (n *node) path(v podsync.Volumes, name string) string {
	n.t.Helper()
	p, err := v.HostPath(n.ctx(), "main", 0, corev1.VolumeMount{Name: name}, "")
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

func (n *node) read(v podsync.Volumes, name, file string) string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.path(v, name), file))
	if errors.Is(err, fs.ErrNotExist) {
		return "<none>"
	}
	if err != nil {
		n.t.Error(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func emptyDir(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

func hostPath(name, path string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}

func configMap(name, object string, optional bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: object}, Optional: &optional,
	}}}
}

func secret(name, object string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}}}
}

func labels(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
	}}}
}

// events remembers events as "Type Reason Message".
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Event(_ *corev1.Pod, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, eventType+" "+reason+" "+message)
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.all, "\n")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
