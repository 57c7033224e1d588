package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
)

// component is what events name as their source: people and programs look for
// the kubelet's.
const component = "kubelet"

// events writes events about pods to the API server: repetitions are counted up
// in one Event, many of one kind are drawn together, and a pod that has very many
// to tell is cut short, all as with the kubelet. What happens while the server is
// away for long is lost.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	next        podsync.EventRecorder // may be nil
}

var _ podsync.EventRecorder = (*events)(nil)

// newEvents makes the recorder. Nothing is sent before run.
func newEvents(node string, next podsync.EventRecorder) (*events, error) {
	scheme, err := kubeclient.Scheme()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	b := record.NewBroadcaster()
	return &events{
		broadcaster: b, next: next,
		recorder: b.NewRecorder(scheme, corev1.EventSource{Component: component, Host: node}),
	}, nil
}

// Event implements podsync.EventRecorder.
func (e *events) Event(pod *corev1.Pod, eventType, reason, message string) {
	if e.next != nil {
		e.next.Event(pod, eventType, reason, message)
	}
	e.recorder.Event(pod, eventType, reason, message)
}

// run sends events until ctx ends.
func (e *events) run(ctx context.Context, c rest.Interface) error {
	w := e.broadcaster.StartRecordingToSink(&eventSink{ctx, c})
	<-ctx.Done()
	w.Stop()
	e.broadcaster.Shutdown()
	return nil
}

// eventSink is a record.EventSink of a plain REST client.
type eventSink struct {
	ctx context.Context
	c   rest.Interface
}

// Create implements record.EventSink.
func (s *eventSink) Create(ev *corev1.Event) (*corev1.Event, error) {
	out := &corev1.Event{}
	return out, s.c.Post().Namespace(ev.Namespace).Resource("events").Body(ev).Do(s.ctx).Into(out)
}

// Update implements record.EventSink.
func (s *eventSink) Update(ev *corev1.Event) (*corev1.Event, error) {
	out := &corev1.Event{}
	return out, s.c.Put().Namespace(ev.Namespace).Resource("events").Name(ev.Name).Body(ev).Do(s.ctx).Into(out)
}

// Patch implements record.EventSink.
func (s *eventSink) Patch(old *corev1.Event, data []byte) (*corev1.Event, error) {
	out := &corev1.Event{}
	return out, s.c.Patch(types.StrategicMergePatchType).Namespace(old.Namespace).Resource("events").Name(old.Name).Body(data).Do(s.ctx).Into(out)
}
