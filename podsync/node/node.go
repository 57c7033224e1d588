package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	mount "k8s.io/mount-utils"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/probe"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/admit"
	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/store"
	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/volumes"
)

// runtimeTimeout bounds one run of the runtime stage: image pulls are the long
// part of it, and one that takes longer goes on with the next run.
const runtimeTimeout = 30 * time.Minute

// volumesTimeout is the kubelet's wait for a pod's volumes.
const volumesTimeout = 2*time.Minute + 3*time.Second

// Config says what a node is made of. Runtime, Images, Root and Sources are required.
type Config struct {
	// Name is the node's name; default "localhost".
	Name string
	// IPs are the node's addresses, primary first.
	IPs []string
	// Labels, Taints, Capacity and Allocatable are what admission judges pods
	// against. Allocatable defaults to Capacity; with both empty nothing is
	// judged by resources.
	Labels                map[string]string
	Taints                []corev1.Taint
	Capacity, Allocatable corev1.ResourceList

	// Root is the directory below which pods have theirs. Absolute.
	Root string
	// LogsRoot is the directory of pod logs; default Root/logs.
	LogsRoot string

	// Runtime and Images are the container runtime: cri/remote's, cri/memory's or
	// another's.
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	// RuntimeName is the scheme of container ids in statuses; default "cri".
	RuntimeName string
	// Sources are the places that pods come from.
	Sources []podsync.Source
	// Objects are the config maps and secrets that pods refer to. nil: none exist.
	Objects podsync.Objects
	// Tokens makes service account tokens; nil makes volumes that need one fail.
	Tokens volumes.TokenSource
	// Network says whether pods can get a network; nil asks the runtime.
	Network cni.Checker
	// Cgroups gives pods their cgroups; nil gives them none.
	Cgroups cgroups.Manager
	// Mounter mounts volumes; nil is the system's. Unprivileged is for an agent
	// that may not mount, on a runtime that does not either.
	Mounter      mount.Interface
	Unprivileged bool
	// StatusSinks are where statuses are written; none keeps them in memory.
	StatusSinks []status.Sink

	// Store keeps what must outlive the process. nil: nothing does, beside what the
	// runtime, the directories and the sinks know.
	Store store.Store

	// Kubelet-like settings of containers: DNS, seccomp and so on. Name, IPs,
	// capacity and logs root are taken from above.
	Containers config.Node
	// CRI are further settings of the runtime stages; Runtime, Images, Node,
	// Objects, Bus and Logger are set by New.
	CRI cri.Options

	// Prober runs single probes; nil is probe.NewHandlers(Runtime).
	Prober probe.Prober
	// ObserveProbe is told of each run of a probe; nil for nobody.
	ObserveProbe func(probe.Observation)
	// GC is how dead containers are collected; the zero value is the kubelet's.
	GC cri.GC
	// Agent are further settings of the agent: resync, backoff, housekeeping,
	// events, run observer. Plan, Sources, Runtime, Reporter, Cleaners, Bus and
	// Logger are set by New.
	Agent podsync.Config
	// Logger takes the log; nil discards.
	Logger *slog.Logger
}

// Node is a node agent that is put together and not running yet. Its parts are
// for reading, the Plan also for changing until Run or Build is called.
type Node struct {
	// Plan is the pipelines.
	Plan *podsync.Plan
	// Bus is the bus that all parts share.
	Bus *podsync.Bus
	// Status, Runtime, Volumes and Cgroups are the backends of the stages.
	Status  *status.Manager
	Runtime *cri.Runtime
	// Probes runs the containers' probes.
	Probes  *probe.Manager
	Volumes *volumes.Manager
	Cgroups cgroups.Manager
	// Allocations judges resizes of running pods and keeps what pods were given.
	// Change its Stages before Run, where a resize is to pass your own too.
	Allocations *admit.Allocations
	// Network is the checker of the network stage.
	Network cni.Checker

	cfg   Config
	log   *slog.Logger
	once  sync.Once
	agent *podsync.Agent
	err   error

	mu   sync.Mutex
	node *corev1.Node
}

// New puts a node together. Nothing is started and no call is made to the
// runtime.
func New(cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Logger, Bus: cfg.Agent.Bus, Cgroups: cfg.Cgroups, Network: cfg.Network}
	if n.Bus == nil {
		n.Bus = podsync.NewBus()
	}
	n.node = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: cfg.Name, Labels: cfg.Labels},
		Spec:       corev1.NodeSpec{Taints: cfg.Taints},
		Status:     corev1.NodeStatus{Capacity: cfg.Capacity, Allocatable: cfg.Allocatable},
	}
	if n.Network == nil {
		n.Network = &cni.FromRuntime{Runtime: cfg.Runtime, Bus: n.Bus, Logger: n.log}
	}
	var err error
	if n.Probes, err = n.makeProbes(); err != nil {
		return nil, err
	}
	n.Status = status.New(status.Options{
		Probed: true,
		Sinks:  cfg.StatusSinks, HostIPs: func() []string { return cfg.IPs },
		RuntimeName: func() string { return cfg.RuntimeName }, Logger: n.log,
	})
	if err := n.makeRuntime(); err != nil {
		return nil, err
	}
	n.Volumes, err = volumes.New(volumes.Options{
		Layout: volumes.Layout{Root: cfg.Root}, Objects: cfg.Objects, Tokens: cfg.Tokens, Mounter: cfg.Mounter, Unprivileged: cfg.Unprivileged,
		Allocatable: func() corev1.ResourceList { return n.Node().Status.Allocatable }, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	n.Allocations = &admit.Allocations{Node: n.Node, Store: cfg.Store, Infeasible: n.infeasible, Logger: n.log}
	n.Plan = n.plan().Install(n.Probes)
	return n, nil
}

func (c *Config) complete() error {
	var errs []error
	if c.Runtime == nil || c.Images == nil {
		errs = append(errs, errors.New("node: Config.Runtime and Config.Images are required; cri/remote and cri/memory make them"))
	}
	if !filepath.IsAbs(c.Root) {
		errs = append(errs, fmt.Errorf("node: Config.Root must be an absolute path, it is %q", c.Root))
	}
	if c.Name == "" {
		c.Name = "localhost"
	}
	if c.LogsRoot == "" {
		c.LogsRoot = filepath.Join(c.Root, "logs")
	}
	if c.Allocatable == nil {
		c.Allocatable = c.Capacity
	}
	if c.Cgroups == nil {
		c.Cgroups = cgroups.Noop{}
	}
	if c.RuntimeName == "" {
		c.RuntimeName = "cri"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

func (n *Node) makeRuntime() (err error) {
	o := n.cfg.CRI
	o.Runtime, o.Images, o.Objects, o.Bus, o.Logger = n.cfg.Runtime, n.cfg.Images, n.cfg.Objects, n.Bus, n.log
	if o.Store == nil {
		o.Store = n.cfg.Store
	}
	if o.Probes == nil {
		o.Probes = n.Probes
	}
	base := n.cfg.Containers
	base.Name, base.IPs, base.LogsRoot = n.cfg.Name, n.cfg.IPs, n.cfg.LogsRoot
	o.Node = func() config.Node {
		c := base
		st := n.Node().Status
		c.Capacity, c.Allocatable = st.Capacity, st.Allocatable
		return c
	}
	n.Runtime, err = cri.New(o)
	return err
}

func (n *Node) makeProbes() (*probe.Manager, error) {
	p := n.cfg.Prober
	if p == nil {
		p = probe.NewHandlers(n.cfg.Runtime)
	}
	return probe.New(probe.Options{
		Prober:   p,
		Changed:  func(uid types.UID, c string, r podsync.ProbeResult) { n.Runtime.Monitor().SetProbe(uid, c, r) },
		Wake:     func(uid types.UID) { n.Bus.Publish(podsync.TopicProbed, uid) },
		Previous: func(uid types.UID) (corev1.PodStatus, bool) { return n.Status.Get(uid) },
		HostIP: func() string {
			if len(n.cfg.IPs) == 0 {
				return ""
			}
			return n.cfg.IPs[0]
		},
		Events: n.cfg.Agent.Events, Observe: n.cfg.ObserveProbe, Logger: n.log,
	})
}

// Node returns the node as admission sees it. Read-only.
func (n *Node) Node() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// SetNode replaces what admission sees of the node (labels, taints,
// allocatable) and wakes the pods that wait for it.
func (n *Node) SetNode(node *corev1.Node) {
	n.mu.Lock()
	n.node = node
	n.mu.Unlock()
	n.Bus.Publish(podsync.TopicNodeChanged)
}

// plan is the kubelet's order of steps.
func (n *Node) plan() *podsync.Plan {
	layout := volumes.Layout{Root: n.cfg.Root}
	return &podsync.Plan{
		Admit: admit.Standard(n.Node),
		Sync: podsync.NewBuilder(podsync.PhaseSync).
			Append(status.Publish(n.Status)).
			Append(cni.Ready(n.Network)).
			Append(cgroups.Ensure(n.Cgroups), podsync.Timeout(time.Minute)).
			Append(volumes.Dirs(layout)).
			Append(volumes.Mounted(n.Volumes), podsync.Timeout(volumesTimeout)).
			Append(images.PullSecrets(n.cfg.Objects), podsync.Timeout(time.Minute)).
			Append(n.Runtime.Sync(), podsync.Detached(), podsync.Timeout(runtimeTimeout)).
			Parallel("prepare", podsync.StageVolumes, podsync.StagePullSecrets),
		Terminating: podsync.NewBuilder(podsync.PhaseTerminating).
			Append(status.Stopping(n.Status)).
			Append(n.Runtime.StopContainers()).
			Append(n.Runtime.VerifyStopped()).
			Append(status.Final(n.Status)),
		Terminated: podsync.NewBuilder(podsync.PhaseTerminated).
			Append(volumes.Unmounted(n.Volumes)).
			Append(cgroups.Remove(n.Cgroups)).
			Append(status.Final(n.Status)),
	}
}

// Build builds the plan and returns the agent; later changes of the plan have
// no effect. Run does it by itself.
func (n *Node) Build() (*podsync.Agent, error) {
	n.once.Do(func() {
		c := n.cfg.Agent
		c.Plan, c.Sources, c.Bus, c.Logger = n.Plan, n.cfg.Sources, n.Bus, n.log
		c.Runtime, c.Reporter = n.Runtime.Monitor(), n.Status
		if c.Allocator == nil {
			c.Allocator = n.Allocations
		}
		c.Cleaners = append([]podsync.Cleaner{
			n.Runtime.Cleaner(), volumes.Cleaner(n.Volumes),
			cgroups.Cleaner(n.Cgroups, n.volumesInUse), n.Status.Cleaner(), n.Probes.Cleaner(),
			n.Allocations.Cleaner(),
		}, c.Cleaners...)
		n.agent, n.err = podsync.New(c)
	})
	return n.agent, n.err
}

// infeasible refuses what the runtime cannot be asked for: a container with swap
// has its share of that by its memory request, which does not change in place.
func (n *Node) infeasible(want, have *corev1.Pod) string {
	if c := &n.cfg.Containers; c.Swap != config.SwapLimited || !c.SwapAccounting || podspec.QOS(have) != corev1.PodQOSBurstable {
		return ""
	}
	for i := range want.Spec.Containers {
		w, h := &want.Spec.Containers[i], &have.Spec.Containers[i]
		if podsync.ResourceDiffers(&w.Resources, &h.Resources, corev1.ResourceMemory) {
			return "container " + w.Name + " may use swap; its memory cannot be resized in place"
		}
	}
	return ""
}

// volumesInUse keeps a pod's cgroup while its directory, and with it maybe a
// mounted volume, is still there.
func (n *Node) volumesInUse(ctx context.Context, uid types.UID) (bool, error) {
	pods, err := n.Volumes.Pods(ctx)
	return slices.Contains(pods, uid), err
}

// CRI returns the container runtime that the node was given.
func (n *Node) CRI() internalapi.RuntimeService { return n.cfg.Runtime }

// List returns the pods with the statuses that the node gives them, sorted by
// namespace and name; none before Build or Run. A pod that is being stopped
// without its source having said so has a deletion time.
func (n *Node) List() []*corev1.Pod {
	if n.agent == nil {
		return nil
	}
	var list []*corev1.Pod
	for _, p := range n.agent.Pods() {
		pod := p.Pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		if st, ok := n.Status.Get(pod.UID); ok {
			pod.Status = st
		}
		if g := p.Explanation.State; pod.DeletionTimestamp == nil && (g == "terminating" || g == "cleanup") {
			now := metav1.NewTime(p.Explanation.Since)
			pod.DeletionTimestamp = &now
		}
		list = append(list, pod)
	}
	return list
}

// Agent returns the agent, nil before Build or Run.
func (n *Node) Agent() *podsync.Agent { return n.agent }

// Run builds the plan if that has not been done, and drives pods until ctx
// ends. It returns nil once everything that it started has ended. Containers
// are left alone.
func (n *Node) Run(ctx context.Context) error {
	a, err := n.Build()
	if err != nil {
		return err
	}
	if err := n.Status.Restore(ctx); err != nil {
		n.log.WarnContext(ctx, "some statuses of before cannot be read; they are computed anew", "err", err)
	}
	// The parts outlive the agent: its last statuses are still written.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var parts sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		parts.Go(func() {
			if err := f(inner); err != nil && inner.Err() == nil {
				n.log.ErrorContext(inner, "a part of the agent ended", "part", name, "err", err)
			}
		})
	}
	run("status", n.Status.Run)
	if c, ok := n.Network.(interface{ Run(context.Context) error }); ok {
		run("network", c.Run)
	}
	run("probes", n.Probes.Run)
	run("garbage collection", func(ctx context.Context) error { return n.Runtime.RunGC(ctx, n.cfg.GC) })
	err = a.Run(ctx)
	stop()
	parts.Wait()
	return err
}
