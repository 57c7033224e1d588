package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
// since is in the store, written after the runtime did it. Since a crash may come
// between the two, or there may be no store, what the runtime reports corrects
// both when this process first sees an instance, and after an update that failed.
// From then on this process's own record counts: a runtime may report late, or
// rounded, or what it was asked for at first.
type actuated struct {
	store store.Store // nil for none

	mu     sync.Mutex
	pods   map[types.UID]map[string]*given // by instance id
	loaded bool
	// open are the pods of which a resize was begun and not told to be completed.
	open map[types.UID]bool
}

// given is what is known of one instance.
type given struct {
	// now is what it has, nil where that is to be settled by before, or else its
	// annotation, and what the runtime reports.
	now, before *corev1.ResourceRequirements
	stored      bool // the store has a record
}

func newActuated(s store.Store) *actuated {
	return &actuated{store: s, pods: map[types.UID]map[string]*given{}, open: map[types.UID]bool{}}
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
		g := a.of(types.UID(uid), id)
		g.before, g.stored = r, true
	}
	return nil
}

// of returns what is known of an instance, made if need be; a.mu is held.
func (a *actuated) of(uid types.UID, id string) *given {
	m := a.pods[uid]
	if m == nil {
		m = map[string]*given{}
		a.pods[uid] = m
	}
	g := m[id]
	if g == nil {
		g = &given{}
		m[id] = g
	}
	return g
}

// peek is of without the making; what is not known is the zero value.
func (a *actuated) peek(uid types.UID, id string) given {
	if g := a.pods[uid][id]; g != nil {
		return *g
	}
	return given{}
}

// fill completes a pod that is not handed out yet with what its instances were
// given.
func (a *actuated) fill(p *podsync.RuntimePod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	podLevel := false
	for _, b := range p.Sandboxes {
		g := a.peek(p.UID, b.ID)
		b.Actuated = cmp.Or(g.now, g.before)
		if b.Actuated == nil {
			b.Actuated = decodeResources(b.Annotations)
		}
		podLevel = podLevel || b.Actuated != nil
	}
	for _, c := range p.Containers {
		if c.State == podsync.ContainerExited {
			continue
		}
		g := a.peek(p.UID, c.ID)
		if c.Actuated = g.now; c.Actuated != nil {
			continue
		}
		base := g.before
		if base == nil {
			base = decodeResources(c.Annotations)
		}
		if base != nil && c.Running() {
			a.firstSeen(p.UID, c, base, podLevel)
		} else {
			c.Actuated = base
		}
	}
}

// firstSeen settles what an instance has, by what is recorded and what the
// runtime reports; a.mu is held.
func (a *actuated) firstSeen(uid types.UID, c *podsync.RuntimeContainer, base *corev1.ResourceRequirements, podLevel bool) {
	r := cpuAndMemory(base)
	if l := c.Resources; l != nil {
		podsync.ReportedResources(&r, l)
		if l.CPUQuota < 0 {
			delete(r.Limits, corev1.ResourceCPU)
		}
		if l.MemoryLimit < 0 {
			delete(r.Limits, corev1.ResourceMemory)
		}
		if !podLevel { // else a limit may be the pod's
			added := corev1.ResourceRequirements{Limits: corev1.ResourceList{}}
			if _, ok := r.Limits[corev1.ResourceCPU]; !ok && l.CPUQuota > 0 {
				added.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(1, resource.DecimalSI)
			}
			if _, ok := r.Limits[corev1.ResourceMemory]; !ok && l.MemoryLimit > 0 {
				added.Limits[corev1.ResourceMemory] = *resource.NewQuantity(1, resource.BinarySI)
			}
			podsync.ReportedResources(&added, l)
			for n := range added.Limits {
				replaceAmount(&r.Limits, added.Limits, n)
			}
		}
	}
	a.of(uid, c.ID).now = &r
	c.Actuated = &r
}

// doubt makes what the runtime reports of an instance count again: an update of
// it failed, and may have been done all the same.
func (a *actuated) doubt(uid types.UID, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g := a.pods[uid][id]; g != nil && g.now != nil {
		g.before, g.now = g.now, nil
	}
}

// assume takes it that an instance of which nothing is known, one that a kubelet
// made, has what the pod says when it is first seen, corrected by what the
// runtime reports. It tells whether there was one.
func (a *actuated) assume(pod *corev1.Pod, p *podsync.RuntimePod) bool {
	found := false
	for _, c := range p.Containers {
		if c.Actuated != nil || !c.Running() {
			continue
		}
		if spec := findContainer(pod, c.Name); spec != nil {
			found = true
			seen := *c // what was handed out does not change
			a.mu.Lock()
			a.firstSeen(pod.UID, &seen, &spec.Resources, pod.Spec.Resources != nil)
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
	g := a.of(uid, id)
	g.now, g.stored = &now, a.store != nil
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

// uids returns the pods of which the store has records.
func (a *actuated) uids() (out []types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, m := range a.pods {
		for _, g := range m {
			if g.stored {
				out = append(out, uid)
				break
			}
		}
	}
	return out
}

// prune drops the records of instances that a pod no longer has.
func (a *actuated) prune(ctx context.Context, uid types.UID, keep func(id string) bool) error {
	a.mu.Lock()
	var stored []string
	for id, g := range a.pods[uid] {
		switch {
		case keep(id):
		case g.stored && a.store != nil:
			stored = append(stored, id)
		default:
			delete(a.pods[uid], id)
		}
	}
	a.tidy(uid)
	a.mu.Unlock()
	for _, id := range stored {
		if err := a.store.Delete(ctx, actuatedBucket, string(uid)+"/"+id); err != nil {
			return fmt.Errorf("forget what %s was resized to: %w", short(id), err)
		}
		a.mu.Lock()
		delete(a.pods[uid], id)
		a.tidy(uid)
		a.mu.Unlock()
	}
	return nil
}

// tidy drops a pod of which nothing is known any more; a.mu is held.
func (a *actuated) tidy(uid types.UID) {
	if len(a.pods[uid]) == 0 {
		delete(a.pods, uid)
		delete(a.open, uid)
	}
}
