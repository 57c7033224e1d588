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
	"strings"
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
	// sink, a cleaner and a recorder of events, and objects and tokens where it has none. Its Name is the Node object's.
	Node *node.Config
	// Describe completes the Node object as it is to be registered. It gets one
	// with the name, the labels, the taints, capacity, allocatable and addresses of
	// Node, what HostInfo says, and conditions by the runtime's and the network's
	// state. It must be quick. nil: as it is.
	Describe func(ctx context.Context, n *corev1.Node)
	// Port is where the node serves the kubelet's API; 0 for not at all.
	Port int32
	// Version is what the Node's kubeletVersion says; default "v1.37.0", the
	// kubelet whose behaviour this is. Other programs judge features by it.
	Version string
	// RuntimeVersion is the container runtime's, "containerd://2.4.2".
	RuntimeVersion string
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
	events *events
	mu     sync.Mutex
	status *status.Manager
	node   *node.Node
}

// New makes the parts and adds them to cfg.Node. No request is made, and nothing
// is started but the queue of events, which Run ends.
func New(cfg Config) (*Cluster, error) {
	if cfg.Client == nil || cfg.Node == nil || cfg.Node.Name == "" {
		return nil, errors.New("cluster: Config.Client, Config.Node and its Name are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Version == "" {
		cfg.Version = "v1.37.0"
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
	var err error
	if c.events, err = newEvents(n.Name, n.Agent.Events); err != nil {
		return nil, err
	}
	n.Agent.Events = c.events
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
	var errs [4]error
	wg.Go(func() { errs[3] = c.events.run(ctx, c.cfg.Client.Core) })
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
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = c.cfg.Port
	n.Status.NodeInfo = node.HostInfo()
	n.Status.NodeInfo.KubeletVersion = c.cfg.Version
	n.Status.NodeInfo.ContainerRuntimeVersion = c.cfg.RuntimeVersion
	n.Labels[corev1.LabelOSStable], n.Labels[corev1.LabelArchStable] = n.Status.NodeInfo.OperatingSystem, n.Status.NodeInfo.Architecture
	n.Status.Conditions = Conditions(c.unready(ctx))
	if c.cfg.Describe != nil {
		c.cfg.Describe(ctx, n)
	}
	return n
}

// unready says why the node takes no pods; "" when it does.
func (c *Cluster) unready(ctx context.Context) string {
	c.mu.Lock()
	n := c.node
	c.mu.Unlock()
	if n == nil {
		return "the node agent has not begun"
	}
	var why []string
	if err := n.Runtime.Monitor().Healthy(); err != nil {
		why = append(why, "container runtime is down: "+err.Error())
	}
	if ok, reason, message := n.Network.Ready(ctx); !ok {
		why = append(why, "container runtime network not ready: "+reason+": "+message)
	}
	return strings.Join(why, "; ")
}

// Conditions are a node's conditions, with the kubelet's reasons: Ready by what
// keeps the node from being so, and no pressure of any kind.
func Conditions(unready string) []corev1.NodeCondition {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the node agent is ready"}
	if unready != "" {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", unready
	}
	return []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "there is enough memory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "there is enough room on the disks"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "there are enough process ids"},
		ready,
	}
}
