package memory

import (
	"context"
	"maps"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (r *Runtime) statsOf(c *container) *runtimeapi.ContainerStats {
	now := r.opt.Clock.Now().UnixNano()
	s := &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{
		Id: c.id, Metadata: c.metadata(), Labels: maps.Clone(c.config.Labels), Annotations: maps.Clone(c.config.Annotations),
	}}
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return s
	}
	u := c.behaviour.Usage
	ran := time.Duration(max(now-c.startedAt, 0))
	s.Cpu = &runtimeapi.CpuUsage{
		Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: uint64(float64(u.CPUNanoCores) * ran.Seconds())},
		UsageNanoCores: &runtimeapi.UInt64Value{Value: u.CPUNanoCores},
	}
	s.Memory = &runtimeapi.MemoryUsage{
		Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{Value: u.MemoryBytes},
		UsageBytes: &runtimeapi.UInt64Value{Value: u.MemoryBytes}, RssBytes: &runtimeapi.UInt64Value{Value: u.MemoryBytes},
	}
	s.WritableLayer = &runtimeapi.FilesystemUsage{
		Timestamp: now, FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: r.opt.ImageFsMountpoint},
		UsedBytes: &runtimeapi.UInt64Value{Value: u.DiskBytes}, InodesUsed: &runtimeapi.UInt64Value{},
	}
	return s
}

func (r *Runtime) containerStats(_ context.Context, q *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := find(r.state.containers, q.GetContainerId())
	if !ok {
		return nil, notFound("failed to find container %q", q.GetContainerId())
	}
	return &runtimeapi.ContainerStatsResponse{Stats: r.statsOf(c)}, nil
}

func (r *Runtime) listContainerStats(_ context.Context, q *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := q.GetFilter()
	resp := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range r.matchContainers(&runtimeapi.ContainerFilter{Id: f.GetId(), PodSandboxId: f.GetPodSandboxId(), LabelSelector: f.GetLabelSelector()}) {
		if c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			resp.Stats = append(resp.Stats, r.statsOf(c))
		}
	}
	return resp, nil
}

func (r *Runtime) sandboxStatsOf(s *sandbox) *runtimeapi.PodSandboxStats {
	linux := &runtimeapi.LinuxPodSandboxStats{}
	var cpu, memory uint64
	for _, c := range s.containers {
		if c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			linux.Containers = append(linux.Containers, r.statsOf(c))
			cpu += c.behaviour.Usage.CPUNanoCores
			memory += c.behaviour.Usage.MemoryBytes
		}
	}
	now := r.opt.Clock.Now().UnixNano()
	linux.Cpu = &runtimeapi.CpuUsage{Timestamp: now, UsageNanoCores: &runtimeapi.UInt64Value{Value: cpu}}
	linux.Memory = &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}}
	linux.Process = &runtimeapi.ProcessUsage{Timestamp: now, ProcessCount: &runtimeapi.UInt64Value{Value: uint64(1 + len(linux.Containers))}}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{
			Id: s.id, Metadata: s.metadata(), Labels: maps.Clone(s.config.Labels), Annotations: maps.Clone(s.config.Annotations),
		},
		Linux: linux,
	}
}

func (r *Runtime) podSandboxStats(_ context.Context, q *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := find(r.state.sandboxes, q.GetPodSandboxId())
	if !ok {
		return nil, notFound("an error occurred when trying to find sandbox %q", q.GetPodSandboxId())
	}
	return &runtimeapi.PodSandboxStatsResponse{Stats: r.sandboxStatsOf(s)}, nil
}

func (r *Runtime) listPodSandboxStats(_ context.Context, q *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := q.GetFilter()
	resp := &runtimeapi.ListPodSandboxStatsResponse{}
	for _, s := range r.matchSandboxes(&runtimeapi.PodSandboxFilter{Id: f.GetId(), LabelSelector: f.GetLabelSelector()}) {
		if s.ready {
			resp.Stats = append(resp.Stats, r.sandboxStatsOf(s))
		}
	}
	return resp, nil
}
