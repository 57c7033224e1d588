package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/source"
)

// runPods is a node agent: it runs the pods of a directory of manifests on the
// CRI runtime at endpoint, until ctx ends.
func runPods(ctx context.Context, endpoint, manifests, root string) error {
	r, err := remote.Dial(ctx, remote.Options{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer r.Close(context.WithoutCancel(ctx))
	n, err := node.New(node.Config{
		Runtime: r.Runtime(), Images: r.Images(), Root: root,
		Sources: []podsync.Source{&source.Dir{Path: manifests, Node: "edge-1"}},
	})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// The agent of fifteen lines, here on the in-memory runtime behind a socket.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "busybox:1"}]}}`
	if err := os.WriteFile(filepath.Join(dir, "web.json"), []byte(pod), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	socket := filepath.Join(dir, "cri.sock")
	served, ended := make(chan error, 1), make(chan error, 1)
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { served <- memory.Serve(serving, rt, socket) }()
	for _, err := os.Stat(socket); err != nil && ctx.Err() == nil; _, err = os.Stat(socket) {
		time.Sleep(time.Millisecond)
	}
	go func() { ended <- runPods(ctx, "unix://"+socket, dir, filepath.Join(dir, "root")) }()

	err = rt.Await(ctx, func(c []memory.Container) bool {
		return len(c) == 1 && c[0].State == runtimeapi.ContainerState_CONTAINER_RUNNING
	})
	for _, c := range rt.Containers() {
		fmt.Println(c.Name, c.State, err)
	}
	cancel()
	fmt.Println(<-ended)
	stop()
	<-served
	// Output:
	// app CONTAINER_RUNNING <nil>
	// <nil>
}

// The pipelines of a node are open until it runs: stages are added, replaced,
// wrapped and removed by name.
func ExampleNode_plan() {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	n, err := node.New(node.Config{
		Runtime: rt, Images: rt, Root: os.TempDir(), Sources: []podsync.Source{&source.Memory{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	office := podsync.NewStage("example.com/office-hours", func(_ context.Context, s *podsync.Sync) podsync.Outcome {
		if h := s.Now().Hour(); s.Pod().Labels["example.com/when"] == "office" && (h < 8 || h > 17) {
			return podsync.Wait(time.Hour, "OutOfHours", "this pod runs from 8 to 17")
		}
		return podsync.Continue()
	})
	n.Plan.Admit.Before(podsync.StageResources, office)
	n.Plan.Sync.Replace(podsync.StageNetwork, cni.Ready(cni.AlwaysReady{}), podsync.Timeout(time.Second))
	n.Plan.Sync.Remove(podsync.StagePullSecrets)
	agent, err := n.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(agent.Pipelines())
	// Output:
	// admit: sysctls > os > node-selector > taints > host-ports > example.com/office-hours > resources
	// sync: status > network > cgroup > dirs > volumes > probes > runtime
	// terminating: status > stop-probes > stop-containers > verify-stopped > final-status
	// terminated: unmount > cgroup-remove > final-status
}

// HostCapacity is what admission may give away.
func ExampleHostCapacity() {
	c := node.HostCapacity(os.TempDir())
	fmt.Println(c.Pods().Value(), c.Cpu().Value() > 0)
	// Output: 110 true
}
