package memory

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (c *container) metadata() *runtimeapi.ContainerMetadata {
	return &runtimeapi.ContainerMetadata{Name: c.config.Metadata.Name, Attempt: c.config.Metadata.Attempt}
}

// shownReason is the reason of the status: containerd's default where none is known.
func (c *container) shownReason() string {
	switch {
	case c.reason != "" || c.state() != runtimeapi.ContainerState_CONTAINER_EXITED:
		return c.reason
	case c.exitCode == 0:
		return "Completed"
	}
	return "Error"
}

func (r *Runtime) containerStatus(_ context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := find(r.state.containers, q.GetContainerId())
	if !ok {
		return nil, notFound("an error occurred when try to find container %q", q.GetContainerId())
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: r.statusOf(c)}
	if q.GetVerbose() {
		resp.Info = infoJSON(map[string]any{"sandboxID": c.sandboxID, "pid": c.pid(), "config": c.config})
	}
	return resp, nil
}

// pid is a stand-in for a process ID: stable, and 0 while there is no process.
func (c *container) pid() uint32 {
	if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return 0
	}
	pid := uint32(0)
	for i := range 4 {
		pid = pid<<4 | uint32(c.id[i]&15)
	}
	return 1000 + pid
}

// statusOf builds the status, as containerd does: times only in the states that have them; the image by its
// tag and its digest while it is there, else as it was asked for. The lock is held.
func (r *Runtime) statusOf(c *container) *runtimeapi.ContainerStatus {
	image, ref := c.config.GetImage().GetImage(), c.imageID
	if img, ok := r.state.images.byID[c.imageID]; ok {
		if tags := img.tags(); len(tags) > 0 {
			image = tags[0]
		}
		if digests := img.digests(); len(digests) > 0 {
			ref = digests[0]
		}
	}
	s := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.metadata(), State: c.state(), CreatedAt: c.createdAt,
		StartedAt: c.startedAt, FinishedAt: c.finishedAt, ExitCode: c.exitCode,
		Image: &runtimeapi.ImageSpec{Image: image}, ImageRef: ref, ImageId: c.imageID,
		Reason: c.shownReason(), Message: c.message,
		Labels: maps.Clone(c.config.Labels), Annotations: maps.Clone(c.config.Annotations),
		LogPath: c.logPath, Resources: proto.CloneOf(c.resources), User: proto.CloneOf(c.user), StopSignal: c.signal,
	}
	for _, m := range c.config.Mounts {
		s.Mounts = append(s.Mounts, proto.CloneOf(m))
	}
	return s
}

func (r *Runtime) listContainers(_ context.Context, q *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.matchContainers(q.GetFilter())
	// Slabs: a list of many is asked for often.
	items := make([]runtimeapi.Container, len(list))
	meta := make([]runtimeapi.ContainerMetadata, len(list))
	images := make([]runtimeapi.ImageSpec, len(list))
	resp := &runtimeapi.ListContainersResponse{Containers: make([]*runtimeapi.Container, len(list))}
	for i, c := range list {
		meta[i].Name, meta[i].Attempt = c.config.Metadata.Name, c.config.Metadata.Attempt
		images[i].Image, images[i].UserSpecifiedImage = c.config.GetImage().GetImage(), c.config.GetImage().GetUserSpecifiedImage()
		k := &items[i]
		k.Id, k.PodSandboxId, k.Metadata, k.Image = c.id, c.sandboxID, &meta[i], &images[i]
		k.ImageRef, k.ImageId, k.State, k.CreatedAt = c.imageID, c.imageID, c.state(), c.createdAt
		k.Labels, k.Annotations = maps.Clone(c.config.Labels), maps.Clone(c.config.Annotations)
		resp.Containers[i] = k
	}
	return resp, nil
}

// matchContainers is the containers that a filter lets through, by creation. The lock is held; the result may
// be the Runtime's own slice.
func (r *Runtime) matchContainers(f *runtimeapi.ContainerFilter) []*container {
	if f == nil {
		return r.state.ordered
	}
	candidates := r.state.ordered
	if f.PodSandboxId != "" {
		s, ok := find(r.state.sandboxes, f.PodSandboxId)
		if !ok {
			return nil
		}
		candidates = s.containers
	}
	if f.Id != "" {
		c, ok := find(r.state.containers, f.Id)
		if !ok || f.PodSandboxId != "" && !slices.Contains(candidates, c) {
			return nil
		}
		candidates = []*container{c}
	}
	var out []*container
	for _, c := range candidates {
		if (f.State == nil || f.State.State == c.state()) && hasLabels(c.config.Labels, f.LabelSelector) {
			out = append(out, c)
		}
	}
	return out
}

// updateContainerResources records the new limits; they are in the next ContainerStatus. As for containerd, a
// field that is zero leaves the old value.
func (r *Runtime) updateContainerResources(_ context.Context, q *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := find(r.state.containers, q.GetContainerId())
	if !ok {
		return nil, notFound("failed to find container %q", q.GetContainerId())
	}
	if l := q.GetLinux(); l != nil {
		merged := proto.CloneOf(c.resources)
		if len(l.HugepageLimits) > 0 { // a merge would append
			merged.Linux.HugepageLimits = nil
		}
		proto.Merge(merged, &runtimeapi.ContainerResources{Linux: l})
		c.resources = merged
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}
