// Package cluster makes a node of podsync/node a node of a Kubernetes cluster:
// its pods come from the API server too, statuses and events go there, static
// pods get mirrors, and the Node is registered and kept alive.
//
//	c, err := cluster.New(cluster.Config{Client: client, Node: &cfg})
//	n, err := node.New(cfg)   // cfg was extended by New
//	c.Attach(n)
//	go c.Run(ctx)             // beside n.Run(ctx)
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/node"
	objects "github.com/podsync/sdk/podsync/objects/apiserver"
	source "github.com/podsync/sdk/podsync/source/apiserver"
	"github.com/podsync/sdk/status"
	sink "github.com/podsync/sdk/status/apiserver"
	"github.com/podsync/sdk/volumes/apitoken"
)

// Config says how a node takes part in a cluster. Client and Node are required.
type Config struct {
	// Client is how the API server is reached.
	Client *kubeclient.Client
	// Node is the configuration of the node; New adds to it a source, a status
	// sink and a cleaner, and objects and tokens where it has none. Its Name is the Node object's.
	Node *node.Config
	// Describe completes the Node object as it is to be registered. It gets one
	// with the name, the labels, the taints, capacity, allocatable and addresses of
	// Node, and a Ready condition that is True. It must be quick. nil: as it is.
	Describe func(ctx context.Context, n *corev1.Node)
	// NoRegister leaves the Node object and its lease to somebody else.
	NoRegister bool
	// Logger takes the log; nil discards.
	Logger *slog.Logger
}

// Cluster is the parts by which a node takes part in a cluster.
type Cluster struct {
	// Pods, Mirrors and Sink are the parts that the node was given.
	Pods    *source.Pods
	Mirrors *source.Mirrors
	Sink    *sink.Sink
	// Objects are the secrets and config maps that the pods refer to.
	Objects *objects.Objects
	// Registration keeps the Node object; nil with NoRegister.
	Registration *Registration

	cfg    Config
	mu     sync.Mutex
	status *status.Manager
	node   *node.Node
}

// New makes the parts and adds them to cfg.Node. Nothing is started and no
// request is made.
func New(cfg Config) (*Cluster, error) {
	if cfg.Client == nil || cfg.Node == nil || cfg.Node.Name == "" {
		return nil, errors.New("cluster: Config.Client, Config.Node and its Name are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{cfg: cfg}
	if !cfg.NoRegister {
		c.Registration = &Registration{Client: cfg.Client, Describe: c.describe, Registered: c.registered, Logger: cfg.Logger}
	}
	c.Mirrors = &source.Mirrors{Client: cfg.Client.Core, Node: cfg.Node.Name, NodeUID: c.nodeUID, Known: c.resend, Logger: cfg.Logger}
	c.Sink = &sink.Sink{Client: cfg.Client.Core, Mirror: c.Mirrors.Of}
	c.Objects = &objects.Objects{Client: cfg.Client.Core, Parameters: cfg.Client.Parameters, Bus: bus(cfg.Node), Logger: cfg.Logger}
	c.Pods = &source.Pods{
		Client: cfg.Client.Core, Parameters: cfg.Client.Parameters, Node: cfg.Node.Name, Mirrors: c.Mirrors, Logger: cfg.Logger,
		Changed: c.Objects.SetPods,
		Observe: func(pod *corev1.Pod) {
			if c.Sink.Drifted(pod) {
				c.resend(pod.UID)
			}
		},
	}
	n := cfg.Node
	if n.Objects == nil {
		n.Objects = c.Objects
	}
	if n.Tokens == nil {
		n.Tokens = &apitoken.Source{Client: cfg.Client.Core}
	}
	n.Sources = append(n.Sources[:len(n.Sources):len(n.Sources)], c.Pods)
	n.StatusSinks = append(n.StatusSinks[:len(n.StatusSinks):len(n.StatusSinks)], c.Sink)
	n.Agent.Cleaners = append(n.Agent.Cleaners[:len(n.Agent.Cleaners):len(n.Agent.Cleaners)], c.Mirrors.Cleaner())
	return c, nil
}

// bus is the node's bus, made when there is none yet.
func bus(n *node.Config) *podsync.Bus {
	if n.Agent.Bus == nil {
		n.Agent.Bus = podsync.NewBus()
	}
	return n.Agent.Bus
}

// Attach adds the stage of mirror pods to the node's plan, after the status. Call
// it before the node runs.
func (c *Cluster) Attach(n *node.Node) {
	n.Plan.Sync.After(podsync.StageStatus, c.Mirrors.Stage())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node, c.status = n, n.Status
}

// Run registers the node and keeps what is in the cluster up to date, until ctx
// ends; it then returns nil. The node itself runs by its own Run.
func (c *Cluster) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	var errs [3]error
	wg.Go(func() { errs[2] = c.Objects.Run(ctx) })
	wg.Go(func() { errs[0] = c.Mirrors.Run(ctx) })
	if c.Registration != nil {
		wg.Go(func() { errs[1] = c.Registration.Run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (c *Cluster) nodeUID() types.UID {
	if c.Registration == nil {
		return ""
	}
	return c.Registration.UID()
}

func (c *Cluster) resend(uid types.UID) {
	c.mu.Lock()
	m := c.status
	c.mu.Unlock()
	if m != nil {
		m.Resend(uid)
	}
}

// registered lets admission see what the cluster says of the node: labels and
// taints that people gave it.
func (c *Cluster) registered(have *corev1.Node) {
	c.mu.Lock()
	n := c.node
	c.mu.Unlock()
	if n != nil {
		n.SetNode(have)
	}
	c.Mirrors.Kick()
}

// describe is the Node as it is to be.
func (c *Cluster) describe(ctx context.Context) *corev1.Node {
	cfg := c.cfg.Node
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: cfg.Name, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{Taints: cfg.Taints},
	}
	for k, v := range cfg.Labels {
		n.Labels[k] = v
	}
	n.Labels[corev1.LabelHostname] = cfg.Name
	n.Status.Capacity = cfg.Capacity
	n.Status.Allocatable = cfg.Allocatable
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = cfg.Capacity
	}
	for _, ip := range cfg.IPs {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: cfg.Name})
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the node agent is ready",
	}}
	if c.cfg.Describe != nil {
		c.cfg.Describe(ctx, n)
	}
	return n
}
