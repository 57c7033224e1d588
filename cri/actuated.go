package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/store"
)

// ResourcesAnnotation is the annotation of a container, and of the sandbox of a
// pod with pod-level resources, that says which CPU and memory it was made
// with, as a JSON corev1.ResourceRequirements.
const ResourcesAnnotation = "podsync.dev/resources"

// actuatedBucket holds what instances were resized to, by pod UID and id.
const actuatedBucket = "actuated"

// actuated knows which resources instances were given. What one was made with is
// in its annotation, for that comes and goes with it; what it was resized to
// since is in the store, written after the runtime did it: a crash between the
// two has it done once more, which changes nothing.
type actuated struct {
	store store.Store // nil for none

	mu     sync.Mutex
	pods   map[types.UID]map[string]*corev1.ResourceRequirements // by instance id
	loaded bool
	// open are the pods of which a resize was begun and not told to be completed.
	open map[types.UID]bool
}

func newActuated(s store.Store) *actuated {
	return &actuated{store: s, pods: map[types.UID]map[string]*corev1.ResourceRequirements{}, open: map[types.UID]bool{}}
}

// encodeResources writes CPU and memory for the annotation.
func encodeResources(r *corev1.ResourceRequirements) (string, error) {
	raw, err := json.Marshal(cpuAndMemory(r))
	if err != nil {
		return "", fmt.Errorf("annotation %s: %w", ResourcesAnnotation, err)
	}
	return string(raw), nil
}

// decodeResources reads the annotation; nil where it is missing or unreadable.
func decodeResources(annotations map[string]string) *corev1.ResourceRequirements {
	raw, ok := annotations[ResourcesAnnotation]
	if !ok {
		return nil
	}
	r := &corev1.ResourceRequirements{}
	if json.Unmarshal([]byte(raw), r) != nil {
		return nil
	}
	return r
}

// cpuAndMemory returns what of the resources can be changed in place.
func cpuAndMemory(r *corev1.ResourceRequirements) corev1.ResourceRequirements {
	var out corev1.ResourceRequirements
	if r == nil {
		return out
	}
	for _, n := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := r.Requests[n]; ok {
			if out.Requests == nil {
				out.Requests = corev1.ResourceList{}
			}
			out.Requests[n] = q
		}
		if q, ok := r.Limits[n]; ok {
			if out.Limits == nil {
				out.Limits = corev1.ResourceList{}
			}
			out.Limits[n] = q
		}
	}
	return out
}

// load reads the store, once. Where that fails the annotations stand, and it is
// tried again: a resize that was done is then done again.
func (a *actuated) load(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded || a.store == nil {
		return nil
	}
	all, err := a.store.List(ctx, actuatedBucket)
	if err != nil {
		return fmt.Errorf("read what containers were resized to: %w", err)
	}
	a.loaded = true
	for key, raw := range all {
		uid, id, ok := strings.Cut(key, "/")
		r := &corev1.ResourceRequirements{}
		if !ok || json.Unmarshal(raw, r) != nil {
			continue
		}
		if a.of(types.UID(uid))[id] == nil {
			a.of(types.UID(uid))[id] = r
		}
	}
	return nil
}

// of returns the records of a pod; a.mu is held.
func (a *actuated) of(uid types.UID) map[string]*corev1.ResourceRequirements {
	m := a.pods[uid]
	if m == nil {
		m = map[string]*corev1.ResourceRequirements{}
		a.pods[uid] = m
	}
	return m
}

// fill completes a pod that is not handed out yet with what its instances were
// given.
func (a *actuated) fill(p *podsync.RuntimePod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.pods[p.UID]
	for _, c := range p.Containers {
		if c.State == podsync.ContainerExited {
			continue
		}
		if c.Actuated = m[c.ID]; c.Actuated == nil {
			c.Actuated = decodeResources(c.Annotations)
		}
	}
	for _, s := range p.Sandboxes {
		if s.Actuated = m[s.ID]; s.Actuated == nil {
			s.Actuated = decodeResources(s.Annotations)
		}
	}
}

// assume takes it that an instance of which nothing is known, one that a kubelet
// made, has what the pod says when it is first seen. It tells whether there was one.
func (a *actuated) assume(pod *corev1.Pod, p *podsync.RuntimePod) bool {
	found := false
	for _, c := range p.Containers {
		if c.Actuated != nil || !c.Running() {
			continue
		}
		if spec := findContainer(pod, c.Name); spec != nil {
			found = true
			r := cpuAndMemory(&spec.Resources)
			a.mu.Lock()
			a.of(pod.UID)[c.ID] = &r
			a.mu.Unlock()
		}
	}
	return found
}

// note remembers that an instance, which had other resources, has now the
// amounts of one resource, or of all if n is "", that r says. It returns all that
// it has.
func (a *actuated) note(ctx context.Context, uid types.UID, id string, had, r *corev1.ResourceRequirements, n corev1.ResourceName) (*corev1.ResourceRequirements, error) {
	now := cpuAndMemory(r)
	if n != "" && had != nil {
		merged := cpuAndMemory(had)
		replaceAmount(&merged.Requests, now.Requests, n)
		replaceAmount(&merged.Limits, now.Limits, n)
		now = merged
	}
	a.mu.Lock()
	a.of(uid)[id] = &now
	a.mu.Unlock()
	if a.store == nil {
		return &now, nil
	}
	raw, err := json.Marshal(now)
	if err == nil {
		err = a.store.Put(ctx, actuatedBucket, string(uid)+"/"+id, raw)
	}
	if err != nil {
		return &now, fmt.Errorf("record that %s was resized: %w", short(id), err)
	}
	return &now, nil
}

func replaceAmount(to *corev1.ResourceList, from corev1.ResourceList, n corev1.ResourceName) {
	q, ok := from[n]
	switch {
	case ok && *to == nil:
		*to = corev1.ResourceList{n: q}
	case ok:
		(*to)[n] = q
	default:
		delete(*to, n)
	}
}

// setOpen notes that a resize of the pod is under way, or not, and returns what
// it was.
func (a *actuated) setOpen(uid types.UID, open bool) (was bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was = a.open[uid]
	if open {
		a.open[uid] = true
	} else if was {
		delete(a.open, uid)
	}
	return was
}

// uids returns the pods of which there are records.
func (a *actuated) uids() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]types.UID, 0, len(a.pods))
	for uid := range a.pods {
		out = append(out, uid)
	}
	return out
}

// prune drops the records of instances that a pod no longer has.
func (a *actuated) prune(ctx context.Context, uid types.UID, keep func(id string) bool) error {
	a.mu.Lock()
	var gone []string
	for id := range a.pods[uid] {
		if !keep(id) {
			gone = append(gone, id)
			delete(a.pods[uid], id)
		}
	}
	if len(a.pods[uid]) == 0 {
		delete(a.pods, uid)
		delete(a.open, uid)
	}
	a.mu.Unlock()
	if a.store == nil {
		return nil
	}
	for _, id := range gone {
		if err := a.store.Delete(ctx, actuatedBucket, string(uid)+"/"+id); err != nil {
			return fmt.Errorf("forget what %s was resized to: %w", short(id), err)
		}
	}
	return nil
}
