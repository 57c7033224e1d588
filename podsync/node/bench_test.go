package node_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/objects"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// benchPod is a running pod of three containers and three volumes.
func benchPod(b *testing.B) (*corev1.Pod, podsync.Objects) {
	pod := podsynctest.Pod()
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}}},
	}
	first := pod.Spec.Containers[0]
	pod.Spec.Containers = nil
	for _, name := range []string{"web", "log", "metrics"} {
		c := *first.DeepCopy()
		c.Name = name
		c.VolumeMounts = []corev1.VolumeMount{
			{Name: "scratch", MountPath: "/scratch"}, {Name: "config", MountPath: "/config"}, {Name: "info", MountPath: "/info"}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	cm := &corev1.ConfigMap{Data: map[string]string{"key": "value"}}
	cm.Namespace, cm.Name = pod.Namespace, "config"
	objs := &objects.Memory{}
	if err := objs.Put(cm); err != nil {
		b.Fatal(err)
	}
	return pod, objs
}

// BenchmarkNoopSync is one run of a pod that is as it should be: all that the
// agent's worker does from the moment it is woken until it rests again, over
// the standard sync pipeline. The pod has three running containers and three
// volumes, and nothing changed since the last run, so that the runtime is not
// asked. The wake-up goes through the bus, as that of a changed object does.
func BenchmarkNoopSync(b *testing.B) {
	rt := memory.New(memory.Options{})
	defer rt.Close(b.Context())
	pod, objs := benchPod(b)
	ended := make(chan podsync.Outcome, 64)
	bus := podsync.NewBus()
	n, err := node.New(node.Config{
		Runtime: rt, Images: rt, Root: b.TempDir(), Unprivileged: true, Objects: objs,
		Sources: []podsync.Source{oneSet{pod}},
		Agent: podsync.Config{Bus: bus, ObserveRun: func(ctx context.Context, i podsync.StageInfo, _ *podsync.Sync) (context.Context, func(podsync.Outcome)) {
			return ctx, func(o podsync.Outcome) { ended <- o }
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	settle(b, n, pod.UID, ended)
	calls := len(rt.Calls())

	b.ReportAllocs()
	for b.Loop() {
		bus.Publish("podsync.dev/benchmark", pod.UID)
		if o := <-ended; o.Stops() {
			b.Fatalf("the run ended in %v", o)
		}
	}
	b.StopTimer()
	if more := len(rt.Calls()) - calls; more > b.N/1000+10 {
		b.Errorf("%d runs made %d calls to the runtime", b.N, more)
	}
}

// settle waits until the pod runs and is left alone.
func settle(b *testing.B, n *node.Node, uid types.UID, ended <-chan podsync.Outcome) {
	wait, stop := context.WithTimeout(b.Context(), 10*time.Second)
	defer stop()
	_, err := n.Status.Wait(wait, uid, func(s corev1.PodStatus) bool {
		return s.Phase == corev1.PodRunning && len(s.ContainerStatuses) == 3 && s.ContainerStatuses[2].Ready
	})
	if err != nil {
		e, _ := n.Agent().Explain(uid)
		b.Fatalf("%v: %v\n%v", err, e, e.Trace)
	}
	for {
		select {
		case <-ended:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}
