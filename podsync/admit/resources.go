package admit

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/podsync"
)

// Resources refuses a pod whose requests do not fit into what the admitted pods
// leave of the node's allocatable resources: reason OutOfcpu, OutOfmemory,
// OutOfephemeral-storage, OutOfpods, or OutOf and the name of an extended
// resource. A resource that the node does not list is not judged: cpu, memory
// and storage of a node that reports none, or an extended resource that is
// handled elsewhere.
type Resources struct {
	// Node is the node judged against.
	Node Node
	// Wait makes a pod that does not fit wait for room rather than be refused.
	Wait bool
}

var _ podsync.Stage = Resources{}

// Name returns podsync.StageResources.
func (Resources) Name() string { return podsync.StageResources }

// Run rejects the pod when it does not fit.
func (r Resources) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	node, o := r.Node.get()
	if node == nil {
		return o
	}
	alloc := node.Status.Allocatable
	if max, ok := alloc[corev1.ResourcePods]; ok && int64(len(s.Admitted()))+1 > max.Value() {
		return r.refuse(corev1.ResourcePods, *resource.NewQuantity(1, resource.DecimalSI), *resource.NewQuantity(int64(len(s.Admitted())), resource.DecimalSI), max)
	}
	want := resourcehelper.PodRequests(s.Pod(), resourcehelper.PodResourcesOptions{})
	used := corev1.ResourceList{}
	for _, p := range s.Admitted() {
		for name, q := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		q, have := want[name], alloc[name]
		if _, listed := alloc[name]; !listed || q.IsZero() || strings.HasPrefix(string(name), "requests.") {
			continue
		}
		sum := used[name].DeepCopy()
		sum.Add(q)
		if sum.Cmp(have) > 0 {
			return r.refuse(name, q, used[name], have)
		}
	}
	return podsync.Continue()
}

func (r Resources) refuse(name corev1.ResourceName, want, used, have resource.Quantity) podsync.Outcome {
	const text = "the node does not have enough %s: requested %s, in use %s, allocatable %s"
	reason := "OutOf" + string(name)
	if r.Wait {
		return podsync.Wait(0, reason, text, name, want.String(), used.String(), have.String()).WakeOn(podsync.TopicRoomFreed, podsync.TopicNodeChanged)
	}
	return podsync.Reject(reason, text, name, want.String(), used.String(), have.String())
}
