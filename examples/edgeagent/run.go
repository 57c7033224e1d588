package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/cri/probe"
	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/metrics"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/objects"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/status"
)

// backend is the container runtime as the rest of the program sees it.
type backend struct {
	runtime internalapi.RuntimeService
	images  internalapi.ImageManagerService
	name    string
	version string // "containerd://v2.4.2"
	driver  string
	memory  *memory.Runtime // nil unless it is that
	close   func(context.Context) error
}

func run(ctx context.Context, f flags, log *slog.Logger) error {
	debug.SetGCPercent(25) // a node's memory is for its pods
	be, err := connect(ctx, f, log)
	if err != nil {
		return err
	}
	defer be.close(context.WithoutCancel(ctx))
	if err := os.MkdirAll(f.RootDir, 0o750); err != nil {
		return err
	}
	cg, err := podCgroups(f, be, log)
	if err != nil {
		return err
	}

	bus := podsync.NewBus()
	objs := &objects.Dir{Path: f.Objects, Bus: bus, Logger: log}
	m := metrics.New()
	cfg := node.Config{
		Name: f.NodeName, IPs: f.NodeIPs, Labels: f.Labels, Capacity: node.HostCapacity(f.RootDir),
		Root: f.RootDir, LogsRoot: f.LogsDir,
		Runtime: be.runtime, Images: be.images, RuntimeName: be.name, Cgroups: cg, Unprivileged: be.memory != nil,
		StatusSinks: []status.Sink{&status.FileSink{Dir: filepath.Join(f.RootDir, "status")}},
		CRI: cri.Options{
			Adopt: f.Adopt, CallTimeout: f.RuntimeTimeout,
			Puller: images.New(images.Options{Service: be.images, PullTimeout: f.PullTimeout, Bus: bus, Logger: log}),
		},
		ObserveProbe: func(o probe.Observation) {
			m.Probe(o.Pod, o.Container, o.Type.String(), o.ResultWord(), o.Took)
		},
		Agent:  podsync.Config{Bus: bus, Events: podsync.LogEvents(log), ObserveRun: m.Run, Housekeeping: f.Housekeeping},
		Logger: log,
	}
	if be.memory != nil {
		cfg.Prober = trialProber{probe.NewHandlers(be.runtime)}
	}
	if f.Manifests != "" {
		cfg.Sources = append(cfg.Sources, &source.Dir{Path: f.Manifests, Node: f.NodeName, Logger: log})
	}
	if f.Objects != "" {
		cfg.Objects = objs
	}
	cl, err := join(f, &cfg, be.version, log)
	if err != nil {
		return err
	}
	cfg.Containers.ClusterDNS, cfg.Containers.ClusterDomain = f.ClusterDNS, f.ClusterDomain
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	if cl != nil {
		cl.Attach(n)
	}
	n.Plan.Observe(podsync.LogStages(nil), m.Stage)
	agent, err := n.Build()
	if err != nil {
		return err
	}
	m.WatchPods(agent)
	if be.memory != nil {
		be.memory.AddRule(endInit(agent))
	}

	parts := []func(context.Context) error{n.Run}
	if f.Objects != "" {
		parts = append(parts, objs.Run)
	}
	if cl != nil {
		parts = append(parts, cl.Run)
	}
	if f.Listen != "" {
		parts = append(parts, func(ctx context.Context) error { return serve(ctx, f, n, m, cl, log) })
	}
	return together(ctx, parts)
}

// together runs the parts until ctx ends or one of them fails.
func together(ctx context.Context, parts []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	errs := make([]error, len(parts))
	for i, part := range parts {
		wg.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				errs[i] = err
				cancel(err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// connect finds the container runtime.
func connect(ctx context.Context, f flags, log *slog.Logger) (*backend, error) {
	if f.RuntimeEndpoint == "memory" {
		rt := memory.New(memory.Options{Logger: log, Rules: []memory.Rule{memory.Commands()}})
		return &backend{runtime: rt, images: rt, name: "memory", version: "memory://0", memory: rt, close: func(context.Context) error { rt.Shutdown(); return nil }}, nil
	}
	r, err := remote.Dial(ctx, remote.Options{Endpoint: f.RuntimeEndpoint, Timeout: f.RuntimeTimeout, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime: %w", err)
	}
	be := &backend{runtime: r.Runtime(), images: r.Images(), name: r.Version().Runtime, version: r.Version().Runtime + "://" + strings.TrimPrefix(r.Version().RuntimeVersion, "v"), driver: f.CgroupDriver, close: r.Close}
	if f.CgroupDriver == "auto" {
		if be.driver, err = r.CgroupDriver(ctx); err != nil {
			be.driver = remote.CgroupDriverCgroupfs
			log.Warn("the runtime does not tell its cgroup driver; taking cgroupfs", "err", err)
		}
	}
	log.Info("container runtime", "endpoint", r.Endpoint(), "name", r.Version().Runtime, "version", r.Version().RuntimeVersion, "cgroupDriver", be.driver)
	return be, nil
}

// trialProber is for the memory runtime: nobody listens at its pods' addresses, so
// that only commands can be probed and the rest is well.
type trialProber struct{ probe.Prober }

// Probe implements probe.Prober.
func (p trialProber) Probe(ctx context.Context, r probe.Request) (probe.Result, error) {
	if r.Probe.Exec != nil {
		return p.Prober.Probe(ctx, r)
	}
	return probe.Result{Verdict: plan.Success}, nil
}

// endInit lets the init containers of the agent's pods end well in the memory
// runtime, where nothing is really run.
func endInit(a *podsync.Agent) memory.Rule {
	return func(c memory.Container) (memory.Behaviour, bool) {
		for _, p := range a.Pods() {
			for _, i := range p.Pod.Spec.InitContainers {
				if string(p.Pod.UID) == c.PodUID && i.Name == c.Name && i.RestartPolicy == nil {
					return memory.Exits(c.Name, 0)(c)
				}
			}
		}
		return memory.Behaviour{}, false
	}
}

// podCgroups gives pods their cgroups, on Linux and as root.
func podCgroups(f flags, be *backend, log *slog.Logger) (cgroups.Manager, error) {
	if f.CgroupRoot == "none" || be.memory != nil {
		return cgroups.Noop{}, nil
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		log.Warn("pods get no cgroups of their own: that needs Linux and root")
		return cgroups.Noop{}, nil
	}
	return cgroups.New(cgroups.Options{CgroupRoot: f.CgroupRoot, Driver: cgroups.Driver(be.driver), Logger: log})
}
