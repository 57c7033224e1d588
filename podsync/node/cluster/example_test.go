package cluster_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/node/cluster"
)

// A node of a cluster, and of no directory of manifests.
func Example() {
	client, err := kubeclient.New(&rest.Config{Host: "https://192.0.2.1:6443"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	cfg := node.Config{Name: "edge-1", Root: "/var/lib/edge", Runtime: rt, Images: rt, Capacity: corev1.ResourceList{}}
	c, err := cluster.New(cluster.Config{Client: client, Node: &cfg})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := node.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Attach(n)
	p, err := n.Plan.Sync.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	// n.Run(ctx) and c.Run(ctx) side by side drive it.

	// Output: sync: status > mirror > network > cgroup > dirs > (volumes | pull-secrets) > probes > runtime
}
