// Quickstart runs a pod on the in-memory runtime: no root, no containerd.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/status"

	"github.com/podsync/sdk/podsync"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	root, err := os.MkdirTemp("", "quickstart")
	check(err)
	defer os.RemoveAll(root)
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()

	pod, pods := podsynctest.Pod(), &source.Memory{}
	pods.Set(pod)
	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: root, Unprivileged: true, Sources: []podsync.Source{pods}})
	check(err)
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	_, err = n.Status.Wait(ctx, pod.UID, func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	check(err)
	st, _ := n.Status.Get(pod.UID)
	pod.Status = st
	ready, word, _ := status.Summary(pod)
	fmt.Println(pod.Name, ready, word, st.PodIP != "")
	cancel()
	check(<-done)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
