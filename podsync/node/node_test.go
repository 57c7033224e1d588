package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/podsynctest"
)

type oneSet []*corev1.Pod

func (oneSet) Name() string { return "test" }
func (o oneSet) Run(ctx context.Context, set func([]*corev1.Pod)) error {
	set(o)
	<-ctx.Done()
	return ctx.Err()
}

func TestNodeRunsAPod(t *testing.T) {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	pod := podsynctest.Pod()
	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: t.TempDir(), Unprivileged: true, Sources: []podsync.Source{oneSet{pod}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	wctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	st, err := n.Status.Wait(wctx, pod.UID, func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	if err != nil {
		e, _ := n.Agent().Explain(pod.UID)
		t.Fatalf("%v: %v\n%v\n%s", err, e, e.Trace, rt.Calls())
	}
	if st.PodIP == "" || len(st.ContainerStatuses) != 1 || !st.ContainerStatuses[0].Ready {
		t.Errorf("status: %+v", st)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
