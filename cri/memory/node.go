package memory

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *Runtime) version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: "podsync-memory", RuntimeVersion: r.opt.Version, RuntimeApiVersion: "v1",
	}, nil
}

func (r *Runtime) runtimeStatus(_ context.Context, q *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			proto.CloneOf(&r.cond.runtime), proto.CloneOf(&r.cond.network),
		}},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}
	for _, name := range append([]string{""}, r.opt.Handlers...) {
		resp.RuntimeHandlers = append(resp.RuntimeHandlers, &runtimeapi.RuntimeHandler{
			Name: name, Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true},
		})
	}
	if q.GetVerbose() {
		resp.Info = infoJSON(map[string]any{"sandboxes": len(r.state.order), "containers": len(r.state.ordered)})
	}
	return resp, nil
}

// SetNetworkReady sets the NetworkReady condition. While it is false, a sandbox with a network of its own
// cannot be made. The reason and message of a ready network are empty.
func (r *Runtime) SetNetworkReady(ready bool, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	setCondition(&r.cond.network, ready, reason, message)
}

// SetRuntimeReady sets the RuntimeReady condition. Nothing else depends on it.
func (r *Runtime) SetRuntimeReady(ready bool, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	setCondition(&r.cond.runtime, ready, reason, message)
}

func setCondition(c *runtimeapi.RuntimeCondition, ready bool, reason, message string) {
	c.Status, c.Reason, c.Message = ready, reason, message
}

func (r *Runtime) runtimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	driver := runtimeapi.CgroupDriver_CGROUPFS
	if r.opt.CgroupDriver == "systemd" {
		driver = runtimeapi.CgroupDriver_SYSTEMD
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

func (r *Runtime) updateRuntimeConfig(_ context.Context, q *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.podCIDR = q.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// PodCIDR is what UpdateRuntimeConfig last set. It is recorded only: addresses come from Options.PodCIDRs.
func (r *Runtime) PodCIDR() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.podCIDR
}

// Containers returns all containers, oldest first.
func (r *Runtime) Containers() []Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	out := make([]Container, len(r.state.ordered))
	for i, c := range r.state.ordered {
		out[i] = c.snapshot()
		out[i].Config = proto.CloneOf(c.config)
	}
	return out
}

// Await waits until ok is true of all containers, oldest first. It asks again after each change of a sandbox
// or container, and never in between. It answers ctx's error when that ends first. The configurations that ok
// sees may only be read.
func (r *Runtime) Await(ctx context.Context, ok func([]Container) bool) error {
	for {
		r.mu.Lock()
		r.alarms.due(r.opt.Clock.Now())
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		list := make([]Container, len(r.state.ordered))
		for i, c := range r.state.ordered {
			list[i] = c.snapshot()
		}
		r.mu.Unlock()
		if ok(list) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the containers of the in-memory runtime: %w", ctx.Err())
		}
	}
}

// change wakes those who Await. The lock is held.
func (r *Runtime) change() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// Leftovers lists what is still there, one line each: sandboxes, containers, addresses. It is empty when every
// pod is gone and nothing leaked; images do not count.
func (r *Runtime) Leftovers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	var out []string
	for _, s := range r.state.order {
		m := s.config.Metadata
		out = append(out, "sandbox "+m.Namespace+"/"+m.Name+" "+s.state().String())
	}
	for _, c := range r.state.ordered {
		m := c.sandbox.Metadata
		out = append(out, "container "+m.Namespace+"/"+m.Name+"/"+c.config.Metadata.Name+" "+c.state().String())
	}
	for _, p := range r.state.pools {
		var addrs []string
		for a := range p.used {
			addrs = append(addrs, "address "+a.String())
		}
		slices.Sort(addrs)
		out = append(out, addrs...)
	}
	return out
}
