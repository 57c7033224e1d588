package cri

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

// inspect asks the runtime for all it holds of one pod. Of old it takes over
// the containers that had exited: they cannot change any more.
// parts, when not nil, is what the pod is known to consist of.
func (m *Monitor) inspect(ctx context.Context, uid types.UID, old *podsync.RuntimePod, parts *podParts) (*podsync.RuntimePod, error) {
	ctx, cancel := m.r.quick(ctx)
	defer cancel()
	now := m.r.o.Clock.Now()
	if parts == nil {
		var err error
		if parts, err = m.listParts(ctx, uid); err != nil {
			return nil, err
		}
	}
	id := config.Identity{UID: uid}
	sandboxes := make([]*podsync.RuntimeSandbox, 0, len(parts.sandboxes))
	for _, b := range parts.sandboxes {
		who, err := config.ParseIdentity(b.Labels)
		if err != nil || who.UID != uid {
			continue
		}
		id.Name, id.Namespace = who.Name, who.Namespace
		s, err := m.sandboxStatus(ctx, b.Id)
		if err != nil {
			return nil, err
		}
		if s != nil {
			sandboxes = append(sandboxes, s)
		}
	}
	containers := make([]*podsync.RuntimeContainer, 0, len(parts.containers))
	for _, item := range parts.containers {
		who, err := config.ParseIdentity(item.Labels)
		if err != nil || who.UID != uid || who.Container == "" {
			continue
		}
		id.Name, id.Namespace = who.Name, who.Namespace
		c := known(old, item)
		if c == nil {
			if c, err = m.containerStatus(ctx, item); err != nil {
				return nil, err
			}
		}
		if c != nil {
			containers = append(containers, c)
		}
	}
	p := config.NewRuntimePod(id, sandboxes, containers, now)
	if old != nil && len(p.IPs) == 0 && !p.SandboxReady() {
		// The addresses a pod had stay in its status when its sandbox is gone.
		p.IPs = old.IPs
	}
	return p, nil
}

// podParts are the sandboxes and containers that a pod consists of, as lists
// have them. Of each the id and the labels are filled in, of a container its
// sandbox and whether it exited.
type podParts struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
}

// partsOf returns the parts of a pod as it was observed.
func partsOf(p *podsync.RuntimePod) *podParts {
	out := &podParts{}
	for _, s := range p.Sandboxes {
		out.sandboxes = append(out.sandboxes, &runtimeapi.PodSandbox{Id: s.ID, Labels: s.Labels})
	}
	for _, c := range p.Containers {
		item := &runtimeapi.Container{Id: c.ID, PodSandboxId: c.SandboxID, Labels: c.Labels, State: runtimeapi.ContainerState_CONTAINER_UNKNOWN}
		if c.State == podsync.ContainerExited {
			item.State = runtimeapi.ContainerState_CONTAINER_EXITED
		}
		out.containers = append(out.containers, item)
	}
	return out
}

// listParts asks the runtime what a pod consists of.
func (m *Monitor) listParts(ctx context.Context, uid types.UID) (*podParts, error) {
	selector := map[string]string{config.LabelPodUID: string(uid)}
	boxes, err := m.r.o.Runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	items, err := m.r.o.Runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return &podParts{boxes, items}, nil
}

// known returns what is remembered of an exited container.
func known(old *podsync.RuntimePod, item *runtimeapi.Container) *podsync.RuntimeContainer {
	if old == nil || item.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		return nil
	}
	for _, c := range old.Containers {
		if c.ID == item.Id && c.State == podsync.ContainerExited {
			return c
		}
	}
	return nil
}

// sandboxStatus returns a sandbox's status, nil when it has gone meanwhile.
func (m *Monitor) sandboxStatus(ctx context.Context, id string) (*podsync.RuntimeSandbox, error) {
	resp, err := m.r.o.Runtime.PodSandboxStatus(ctx, id, false)
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("status of sandbox %s: %w", short(id), err)
	case resp.GetStatus() == nil:
		return nil, fmt.Errorf("status of sandbox %s: %w", short(id), errNoStatus)
	}
	return config.ParseSandboxStatus(resp.Status), nil
}

// containerStatus returns a container's status, nil when it has gone meanwhile
// or is none of a pod.
func (m *Monitor) containerStatus(ctx context.Context, item *runtimeapi.Container) (*podsync.RuntimeContainer, error) {
	resp, err := m.r.o.Runtime.ContainerStatus(ctx, item.Id, false)
	switch {
	case notFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("status of container %s: %w", short(item.Id), err)
	case resp.GetStatus() == nil:
		return nil, fmt.Errorf("status of container %s: %w", short(item.Id), errNoStatus)
	}
	_, c, err := config.ParseContainerStatus(item.PodSandboxId, resp.Status)
	if err != nil {
		m.r.log.DebugContext(ctx, "container left alone", "container", short(item.Id), "err", err)
		return nil, nil
	}
	if c.State == podsync.ContainerExited {
		c.Message = config.TerminationMessage(c, config.ReadTerminationFile, config.ReadLogTail)
	}
	return c, nil
}

// listing is what two list calls say of all pods with the kubelet's labels.
type listing struct {
	ids        map[types.UID]config.Identity
	owned      map[types.UID]bool
	sandboxes  map[types.UID][]*podsync.RuntimeSandbox
	containers map[types.UID][]*podsync.RuntimeContainer
	strange    int // sandboxes of others
}

// list asks the runtime for everything.
func (m *Monitor) list(ctx context.Context) (*listing, error) {
	boxes, err := m.r.o.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	items, err := m.r.o.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	l := &listing{ids: map[types.UID]config.Identity{}, owned: map[types.UID]bool{},
		sandboxes: map[types.UID][]*podsync.RuntimeSandbox{}, containers: map[types.UID][]*podsync.RuntimeContainer{}}
	for _, b := range boxes {
		who, err := config.ParseIdentity(b.Labels)
		if err != nil {
			l.strange++
			continue
		}
		if m.r.owns(b.Labels) {
			l.owned[who.UID] = true
		} else {
			l.strange++
		}
		l.ids[who.UID] = who
		l.sandboxes[who.UID] = append(l.sandboxes[who.UID], config.ParseSandbox(b))
	}
	for _, item := range items {
		who, c, err := config.ParseContainer(item)
		if err != nil {
			continue
		}
		// A pod is whose its sandbox or one of its containers is.
		if m.r.owns(item.Labels) {
			l.owned[who.UID] = true
		}
		who.Container = ""
		l.ids[who.UID] = who
		l.containers[who.UID] = append(l.containers[who.UID], c)
	}
	return l, nil
}

// pod returns what was listed of one pod.
func (l *listing) pod(uid types.UID, at time.Time) *podsync.RuntimePod {
	return config.NewRuntimePod(l.ids[uid], l.sandboxes[uid], l.containers[uid], at)
}

// pods returns the pods that are this agent's.
func (l *listing) pods(at time.Time) []*podsync.RuntimePod {
	out := make([]*podsync.RuntimePod, 0, len(l.owned))
	for uid := range l.owned {
		out = append(out, l.pod(uid, at))
	}
	return out
}

// boxState is a sandbox's state as a number for fingerprint.
func boxState(s *podsync.RuntimeSandbox) uint64 {
	if s.Ready {
		return 0
	}
	return 1
}

// fingerprint stands for which sandboxes and containers a pod has and in which
// state, in any order. A container that is only created does not count: it is
// no news until it starts.
func fingerprint(p *podsync.RuntimePod) uint64 {
	var sum uint64
	for _, s := range p.Sandboxes {
		sum += hashState(s.ID, boxState(s))
	}
	for _, c := range p.Containers {
		if c.State != podsync.ContainerCreated {
			sum += hashState(c.ID, 16+uint64(c.State))
		}
	}
	return sum
}

// hashState is FNV-1a over an id and a state.
func hashState(id string, state uint64) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return (h ^ state) * 1099511628211
}
