package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/store"
)

// allocatedBucket holds what each pod was given, by UID.
const allocatedBucket = "allocated"

// Allocations is the podsync.Allocator of a node: it judges a resize as the
// kubelet does, by the stages that judge new pods, and keeps in a store what
// pods were given, so that a restart of the agent gives nobody anything. A
// record has CPU and memory, of the pod and of its containers; nothing else of
// a spec changes what a pod was given. Make one with a composite literal and do
// not copy it. Safe for concurrent use.
type Allocations struct {
	// Stages judge a pod with the resources that it asks for against the others.
	// Whatever stops it (Reject, Wait, Retry) defers the resize, also where the
	// pod would be larger than the node, since that may grow. They should have no
	// side effects; Undo is not called. nil is Resources{Node: Node}.
	Stages []podsync.Stage
	// Node is the node for the default of Stages.
	Node Node
	// Infeasible says, with a message, why the node can never do a resize, ""
	// where it can; nil sees no such reason. It comes after the reasons that
	// there always are: a resize that would change the pod's quality of service
	// class, and any on a system other than Linux.
	Infeasible func(want, have *corev1.Pod) string
	// Store keeps the records; nil keeps them for as long as the process lives.
	Store store.Store
	// Logger is told of records that cannot be read; nil discards.
	Logger *slog.Logger

	mu     sync.Mutex
	memory store.Memory
	told   map[types.UID]bool
}

var _ podsync.Allocator = (*Allocations)(nil)

// allocation is a record. Version 1 is the only one so far.
type allocation struct {
	Version    int                                    `json:"version"`
	Pod        *corev1.ResourceRequirements           `json:"pod,omitempty"`
	Containers map[string]corev1.ResourceRequirements `json:"containers"`
}

func (a *Allocations) store() store.Store {
	if a.Store != nil {
		return a.Store
	}
	return &a.memory
}

// Allocated implements podsync.Allocator. A record that cannot be read counts
// as none, and is logged once.
func (a *Allocations) Allocated(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	rec, err := a.read(ctx, pod.UID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return pod
	case err != nil:
		a.warn(ctx, pod, err)
		return pod
	}
	given := &corev1.Pod{}
	given.Spec.Resources = rec.Pod
	of := func(l []corev1.Container) (out []corev1.Container) {
		for i := range l {
			if r, ok := rec.Containers[l[i].Name]; ok {
				out = append(out, corev1.Container{Name: l[i].Name, Resources: r})
			}
		}
		return out
	}
	given.Spec.InitContainers, given.Spec.Containers = of(pod.Spec.InitContainers), of(pod.Spec.Containers)
	return podsync.WithResources(pod, given)
}

func (a *Allocations) read(ctx context.Context, uid types.UID) (*allocation, error) {
	raw, err := a.store().Get(ctx, allocatedBucket, string(uid))
	if err != nil {
		return nil, err
	}
	var rec allocation
	if err := json.Unmarshal(raw, &rec); err != nil {
		return nil, fmt.Errorf("record of what pod %s was given: %w", uid, err)
	}
	if rec.Version != 1 {
		return nil, fmt.Errorf("record of what pod %s was given: version %d is not known", uid, rec.Version)
	}
	return &rec, nil
}

func (a *Allocations) warn(ctx context.Context, pod *corev1.Pod, err error) {
	a.mu.Lock()
	told := a.told[pod.UID]
	if a.told == nil {
		a.told = map[types.UID]bool{}
	}
	a.told[pod.UID] = true
	a.mu.Unlock()
	if !told && a.Logger != nil {
		a.Logger.WarnContext(ctx, "what the pod was given before is not known; it counts with what it asks for now", "pod", podsync.Ref(pod), "err", err)
	}
}

// Judge implements podsync.Allocator.
func (a *Allocations) Judge(ctx context.Context, want, have *corev1.Pod, others []*corev1.Pod) podsync.Resize {
	if why := a.infeasible(want, have); why != "" {
		return podsync.Resize{Reason: corev1.PodReasonInfeasible, Message: why}
	}
	stages := a.Stages
	if stages == nil {
		stages = []podsync.Stage{Resources{Node: a.Node}}
	}
	s := podsync.NewSync(want, podsync.WithAdmitted(others...))
	for _, st := range stages {
		o := st.Run(ctx, s)
		if o.Kind() == podsync.KindContinue || o.Kind() == podsync.KindSkip {
			continue
		}
		why := o.Message()
		if o.Reason() != "" {
			why = o.Reason() + ": " + why
		}
		return podsync.Resize{Reason: corev1.PodReasonDeferred, Message: strings.TrimSuffix(why, ": ")}
	}
	return podsync.Resize{}
}

func (a *Allocations) infeasible(want, have *corev1.Pod) string {
	if runtime.GOOS != "linux" {
		return "in-place resize is not supported on " + runtime.GOOS
	}
	if is, will := podspec.QOS(have), podspec.QOS(want); is != will {
		return fmt.Sprintf("the pod's quality of service class is %s and would become %s; that needs a new pod", is, will)
	}
	if a.Infeasible != nil {
		return a.Infeasible(want, have)
	}
	return ""
}

// Record implements podsync.Allocator. Nothing is written where the record says
// so already.
func (a *Allocations) Record(ctx context.Context, pod *corev1.Pod) error {
	rec := allocation{Version: 1, Pod: cpuAndMemory(pod.Spec.Resources), Containers: map[string]corev1.ResourceRequirements{}}
	for _, l := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range l {
			rec.Containers[l[i].Name] = *cpuAndMemory(&l[i].Resources)
		}
	}
	raw, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("record what pod %s is given: %w", podsync.Ref(pod), err)
	}
	if old, err := a.store().Get(ctx, allocatedBucket, string(pod.UID)); err == nil && string(old) == string(raw) {
		return nil
	}
	if err := a.store().Put(ctx, allocatedBucket, string(pod.UID), raw); err != nil {
		return fmt.Errorf("record what pod %s is given: %w", podsync.Ref(pod), err)
	}
	return nil
}

// cpuAndMemory returns what of the resources a resize can change.
func cpuAndMemory(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	pick := func(l corev1.ResourceList) (out corev1.ResourceList) {
		for _, n := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := l[n]; ok {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[n] = q
			}
		}
		return out
	}
	return &corev1.ResourceRequirements{Requests: pick(r.Requests), Limits: pick(r.Limits)}
}

// Forget implements podsync.Allocator.
func (a *Allocations) Forget(ctx context.Context, uid types.UID) error {
	a.mu.Lock()
	delete(a.told, uid)
	a.mu.Unlock()
	if err := a.store().Delete(ctx, allocatedBucket, string(uid)); err != nil {
		return fmt.Errorf("forget what pod %s was given: %w", uid, err)
	}
	return nil
}

// Cleaner returns what finds the records of pods that nobody knows any more.
func (a *Allocations) Cleaner() podsync.Cleaner { return allocationsCleaner{a} }

type allocationsCleaner struct{ a *Allocations }

func (allocationsCleaner) Name() string { return "allocations" }

func (c allocationsCleaner) Pods(ctx context.Context) ([]types.UID, error) {
	all, err := c.a.store().List(ctx, allocatedBucket)
	if err != nil {
		return nil, fmt.Errorf("list what pods were given: %w", err)
	}
	uids := make([]types.UID, 0, len(all))
	for uid := range all {
		uids = append(uids, types.UID(uid))
	}
	return uids, nil
}

// Remove removes the pod's record.
func (c allocationsCleaner) Remove(ctx context.Context, uid types.UID) error {
	return c.a.Forget(ctx, uid)
}
