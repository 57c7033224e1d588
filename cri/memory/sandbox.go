package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod sandbox.
type sandbox struct {
	id, name   string
	config     *runtimeapi.PodSandboxConfig // our own copy, never changed
	handler    string
	createdAt  int64
	ready      bool
	ips        []string // empty without a network of its own
	containers []*container
	overhead   *runtimeapi.LinuxContainerResources // of UpdatePodSandboxResources
	resources  *runtimeapi.LinuxContainerResources
}

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), strconv.FormatUint(uint64(m.GetAttempt()), 10)}, "_")
}

func hostNetwork(c *runtimeapi.PodSandboxConfig) bool {
	return c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

// reserve takes a name, as containerd's name index does. The lock is held.
func (r *Runtime) reserve(kind, name, id string) error {
	if owner, taken := r.state.names[kind+" "+name]; taken {
		hint := ""
		if kind == "container" {
			hint = "; check if another CreateContainer request is in progress"
		}
		return fmt.Errorf("failed to reserve %s name %q%s: name %q is reserved for %q", kind, name, hint, name, owner)
	}
	r.state.names[kind+" "+name] = id
	return nil
}

func (r *Runtime) release(kind, name string) { delete(r.state.names, kind+" "+name) }

func (r *Runtime) runPodSandbox(_ context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	m := q.GetConfig().GetMetadata()
	if m.GetName() == "" || m.GetNamespace() == "" || m.GetUid() == "" {
		return nil, status.Error(codes.InvalidArgument, "sandbox config must have a name, a namespace and a uid")
	}
	config := proto.CloneOf(q.GetConfig())
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sandbox{id: r.id("sandbox"), name: sandboxName(m), config: config, handler: q.GetRuntimeHandler(), ready: true}
	if err := r.reserve("sandbox", s.name, s.id); err != nil {
		return nil, unknown(err)
	}
	if s.handler != "" && !slices.Contains(r.opt.Handlers, s.handler) {
		r.release("sandbox", s.name)
		return nil, unknown(fmt.Errorf("unable to get OCI runtime for sandbox %q: no runtime for %q is configured", s.id, s.handler))
	}
	if !hostNetwork(config) {
		if err := r.attach(s); err != nil {
			r.release("sandbox", s.name)
			return nil, unknown(fmt.Errorf("failed to setup network for sandbox %q: %w", s.id, err))
		}
	}
	s.createdAt = r.stampNow()
	r.state.sandboxes[s.id] = s
	r.state.order = append(r.state.order, s)
	r.opt.Logger.Debug("sandbox runs", "pod", m.Namespace+"/"+m.Name, "uid", m.Uid, "sandbox", s.id)
	r.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

func (r *Runtime) stopPodSandbox(ctx context.Context, q *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if err := r.haltSandbox(ctx, q.GetPodSandboxId()); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// haltSandbox kills the containers of a sandbox, then the sandbox, and frees its addresses. An unknown one
// and a stopped one are fine.
func (r *Runtime) haltSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	s, ok := find(r.state.sandboxes, id)
	var running []*container
	if ok {
		running = slices.Clone(s.containers)
	}
	r.mu.Unlock()
	if !ok {
		return nil
	}
	for _, c := range running {
		if err := r.stop(ctx, c, 0); err != nil {
			return fmt.Errorf("failed to stop container %q: %w", c.id, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detach(s)
	r.sandboxDown(s)
	return nil
}

// sandboxDown makes a ready sandbox NotReady. The lock is held.
func (r *Runtime) sandboxDown(s *sandbox) {
	if s.ready && r.state.sandboxes[s.id] == s {
		s.ready = false
		r.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
}

func (r *Runtime) removePodSandbox(ctx context.Context, q *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	id := q.GetPodSandboxId()
	if err := r.haltSandbox(ctx, id); err != nil {
		return nil, fmt.Errorf("failed to forcibly stop sandbox %q: %w", id, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := find(r.state.sandboxes, id)
	if !ok {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	for _, c := range slices.Clone(s.containers) {
		if err := r.drop(c); err != nil {
			return nil, unknown(fmt.Errorf("failed to remove container %q: %w", c.id, err))
		}
	}
	r.emit(s, s.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	r.dropSandbox(s)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// dropSandbox forgets a sandbox. The lock is held.
func (r *Runtime) dropSandbox(s *sandbox) {
	r.detach(s)
	delete(r.state.sandboxes, s.id)
	r.state.order = without(r.state.order, s)
	r.release("sandbox", s.name)
}

// without takes one element out of a slice that keeps its order.
func without[T comparable](list []T, gone T) []T {
	if i := slices.Index(list, gone); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func (r *Runtime) podSandboxStatus(_ context.Context, q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := find(r.state.sandboxes, q.GetPodSandboxId())
	if !ok {
		return nil, notFound("an error occurred when try to find sandbox %q", q.GetPodSandboxId())
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: s.status()}
	if q.GetVerbose() {
		resp.Info = infoJSON(map[string]any{"config": s.config, "runtimeHandler": s.handler, "overhead": s.overhead, "resources": s.resources})
	}
	return resp, nil
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) metadata() *runtimeapi.PodSandboxMetadata {
	m := s.config.Metadata
	return &runtimeapi.PodSandboxMetadata{Name: m.Name, Uid: m.Uid, Namespace: m.Namespace, Attempt: m.Attempt}
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	if len(s.ips) > 0 {
		network.Ip = s.ips[0]
		for _, ip := range s.ips[1:] {
			network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	options := s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	if options != nil {
		options = proto.CloneOf(options)
	}
	return &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.metadata(), State: s.state(), CreatedAt: s.createdAt, Network: network,
		Linux:  &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}},
		Labels: maps.Clone(s.config.Labels), Annotations: maps.Clone(s.config.Annotations), RuntimeHandler: s.handler,
	}
}

func (r *Runtime) listPodSandbox(_ context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range r.matchSandboxes(q.GetFilter()) {
		resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.metadata(), State: s.state(), CreatedAt: s.createdAt,
			Labels: maps.Clone(s.config.Labels), Annotations: maps.Clone(s.config.Annotations), RuntimeHandler: s.handler,
		})
	}
	return resp, nil
}

// matchSandboxes is the sandboxes that a filter lets through, by creation. The lock is held; the result may
// be the Runtime's own slice.
func (r *Runtime) matchSandboxes(f *runtimeapi.PodSandboxFilter) []*sandbox {
	if f == nil {
		return r.state.order
	}
	candidates := r.state.order
	if f.Id != "" {
		s, ok := find(r.state.sandboxes, f.Id)
		if !ok {
			return nil
		}
		candidates = []*sandbox{s}
	}
	var out []*sandbox
	for _, s := range candidates {
		if (f.State == nil || f.State.State == s.state()) && hasLabels(s.config.Labels, f.LabelSelector) {
			out = append(out, s)
		}
	}
	return out
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (r *Runtime) updatePodSandboxResources(_ context.Context, q *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := find(r.state.sandboxes, q.GetPodSandboxId())
	if !ok {
		return nil, notFound("failed to find sandbox %q", q.GetPodSandboxId())
	}
	s.overhead, s.resources = proto.CloneOf(q.GetOverhead()), proto.CloneOf(q.GetResources())
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
