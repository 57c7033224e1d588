package main

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/node/cluster"
	"github.com/podsync/sdk/podsync/objects"
)

// join makes the node one of the cluster of --kubeconfig; nil without.
func join(f flags, cfg *node.Config, log *slog.Logger) (*cluster.Cluster, error) {
	if f.Kubeconfig == "" {
		return nil, nil
	}
	rest, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", f.Kubeconfig, err)
	}
	client, err := kubeclient.New(rest)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", f.Kubeconfig, err)
	}
	near := cfg.Objects
	cfg.Objects = nil
	c, err := cluster.New(cluster.Config{Client: client, Node: cfg, Logger: log})
	if err != nil {
		return nil, err
	}
	if near != nil {
		// Objects of this node's directory come before the cluster's.
		cfg.Objects = objects.Chain{near, podsync.Objects(c.Objects)}
	}
	return c, nil
}
