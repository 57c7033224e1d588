// Quickstart runs a pod on the in-memory runtime: no root, no containerd.
package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/source"
)

func main() {
	root, _ := os.MkdirTemp("", "quickstart")
	defer os.RemoveAll(root)
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	pods := &source.Memory{}
	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: root, Unprivileged: true, Sources: []podsync.Source{pods}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()

	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1"}}}}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "web-uid"
	pods.Set(pod)
	st, err := n.Status.Wait(ctx, pod.UID, func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	fmt.Println(pod.Name, st.Phase, st.PodIP, err)
	cancel()
	fmt.Println("agent stopped:", <-done)
}
