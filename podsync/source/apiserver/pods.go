// Package apiserver takes pods from a Kubernetes API server: those that are bound
// to this node. For the static pods of other sources it keeps mirror pods there,
// by which people and controllers of the cluster see them.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/podspec"
)

// SourceName is the name of the source, and what its pods have in their
// kubernetes.io/config.source annotation. The agent tells by it that such pods
// are not static.
const SourceName = "api"

// Pods is the source. Client and Node are required. An API server that cannot be
// reached leaves the last set as it is, and until it has been reached once there
// is none, so that nothing is removed for the lack of it.
//
// A Pods is for one Run at a time.
type Pods struct {
	// Client is a REST client of the API's v1: kubeclient.Client.Core, or that of
	// a clientset.
	Client rest.Interface
	// Parameters encodes list options; kubeclient.Client.Parameters.
	Parameters runtime.ParameterCodec
	// Node is the name of the node whose pods are wanted.
	Node string
	// Mirrors, if not nil, learns of the node's mirror pods. They are never part of
	// the set.
	Mirrors *Mirrors
	// Observe, if not nil, is called with each pod as the server has it, before it
	// is handed on. It must not block, and must not change the pod.
	Observe func(pod *corev1.Pod)
	// Changed, if not nil, is called with each set before it is handed on; it must
	// not block. What follows the objects that pods refer to is told so.
	Changed func(pods []*corev1.Pod)
	// Logger tells when the server cannot be reached, and when it can be again.
	// Nil discards.
	Logger *slog.Logger
}

var _ podsync.Source = (*Pods)(nil)

// Name returns SourceName.
func (*Pods) Name() string { return SourceName }

// Run hands over the node's pods until ctx ends, then returns nil. See
// podsync.Source.
func (p *Pods) Run(ctx context.Context, set func(pods []*corev1.Pod)) error {
	if p.Client == nil || p.Node == "" {
		return errors.New("source api: Client and Node are required")
	}
	log := p.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("source", SourceName)
	view := &podStore{source: p, set: set, pods: map[types.UID]*corev1.Pod{}}
	kubeclient.Follow(ctx, p.Client, p.Parameters, kubeclient.Selection{
		Resource: "pods", Fields: fields.OneTermEqualSelector("spec.nodeName", p.Node), Kind: &corev1.Pod{}, List: &corev1.PodList{},
	}, view, log)
	return nil
}

// podStore is the reflector's store: the node's pods by UID.
type podStore struct {
	source *Pods
	set    func([]*corev1.Pod)

	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
}

// mark makes the object, which nobody else has yet, one of this source.
func mark(obj any) (*corev1.Pod, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("source api: %T is not a pod", obj)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podspec.AnnotationSource] = SourceName
	return pod, nil
}

// Add implements cache.ReflectorStore.
func (s *podStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *podStore) Update(obj any) error {
	if mirror, ok := isMirror(obj); ok {
		s.source.Mirrors.observe(mirror)
		return nil
	}
	pod, err := mark(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.UID] = pod
	s.observe(pod)
	s.handOver()
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *podStore) Delete(obj any) error {
	if mirror, ok := isMirror(obj); ok {
		s.source.Mirrors.gone(mirror)
		return nil
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("source api: %T is not a pod", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, pod.UID)
	s.handOver()
	return nil
}

// Replace implements cache.ReflectorStore: the whole list, at first and after a
// watch that cannot be resumed. A pod whose version is the known one stays the
// object it was.
func (s *podStore) Replace(objs []any, _ string) error {
	var mirrors []*corev1.Pod
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[types.UID]*corev1.Pod, len(objs))
	for _, obj := range objs {
		if m, ok := isMirror(obj); ok {
			mirrors = append(mirrors, m)
			continue
		}
		pod, err := mark(obj)
		if err != nil {
			return err
		}
		if old := s.pods[pod.UID]; old != nil && old.ResourceVersion == pod.ResourceVersion {
			pod = old
		}
		next[pod.UID] = pod
	}
	s.pods = next
	s.source.Mirrors.replace(mirrors)
	for _, pod := range next {
		s.observe(pod)
	}
	s.handOver()
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do.
func (*podStore) Resync() error { return nil }

func (s *podStore) observe(pod *corev1.Pod) {
	if s.source.Observe != nil {
		s.source.Observe(pod)
	}
}

// handOver gives the set to the agent, pointers only: the pods are read-only.
func (s *podStore) handOver() {
	pods := slices.Collect(maps.Values(s.pods))
	if s.source.Changed != nil {
		s.source.Changed(pods)
	}
	s.set(pods)
}

// isMirror tells a mirror pod from one that is to run.
func isMirror(obj any) (*corev1.Pod, bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, false
	}
	_, ok = pod.Annotations[podspec.AnnotationMirror]
	return pod, ok
}

// requestTimeout bounds one write to the API server.
const requestTimeout = 30 * time.Second
