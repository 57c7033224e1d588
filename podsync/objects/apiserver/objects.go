// Package apiserver has the secrets and config maps of an API server for the pods
// that refer to them: one watch for each object, as a node's authorization asks
// for, from the first pod that refers to it until the last one is gone.
package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/podspec"
)

// firstAnswer is how long a reader waits for the first answer of a watch that was
// just begun, before it gives up for this time.
const firstAnswer = 10 * time.Second

// Objects is a podsync.Objects. SetPods says which pods there are; what they
// refer to is watched, other objects are read when they are asked for. The pods
// that refer to an object that changed are woken, and no others. An immutable
// object is no longer watched once it was read.
//
// While the API server is away what was read last is given. Safe for concurrent
// use.
type Objects struct {
	// Client is a REST client of the API's v1; Parameters its codec. Required.
	Client     rest.Interface
	Parameters runtime.ParameterCodec
	// Bus is where changes are published. nil publishes nothing.
	Bus *podsync.Bus
	// Logger takes the log; nil discards.
	Logger *slog.Logger

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	watches map[podspec.ObjectRef]*watched
	wg      sync.WaitGroup
}

var _ podsync.Objects = (*Objects)(nil)

// SetPods says which pods there are, all of them: it is the Changed of the source.
func (o *Objects) SetPods(pods []*corev1.Pod) {
	want := map[podspec.ObjectRef][]types.UID{}
	for _, p := range pods {
		for _, r := range podspec.References(p) {
			want[r] = append(want[r], p.UID)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref, w := range o.watches {
		if want[ref] == nil {
			w.stop()
			delete(o.watches, ref)
		}
	}
	if o.watches == nil {
		o.watches = map[podspec.ObjectRef]*watched{}
	}
	for ref, uids := range want {
		slices.Sort(uids)
		w := o.watches[ref]
		if w == nil {
			w = newWatched(o, ref)
			o.watches[ref] = w
			o.startLocked(w)
		}
		w.setUsers(uids)
	}
}

// Run follows the objects until ctx ends, then returns nil when every watch has
// ended.
func (o *Objects) Run(ctx context.Context) error {
	o.mu.Lock()
	o.ctx = ctx
	for _, w := range o.watches {
		o.startLocked(w)
	}
	o.mu.Unlock()
	<-ctx.Done()
	o.mu.Lock()
	o.ctx = nil
	o.mu.Unlock()
	o.wg.Wait()
	return nil
}

func (o *Objects) startLocked(w *watched) {
	if o.ctx == nil || o.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	w.begin(cancel)
	o.wg.Go(func() {
		defer cancel()
		w.run(ctx)
	})
}

// Secret implements podsync.Objects.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	obj, err := o.get(ctx, podspec.ObjectRef{Kind: "Secret", Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Secret), nil
}

// ConfigMap implements podsync.Objects.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	obj, err := o.get(ctx, podspec.ObjectRef{Kind: "ConfigMap", Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.ConfigMap), nil
}

func (o *Objects) get(ctx context.Context, ref podspec.ObjectRef) (runtime.Object, error) {
	o.mu.Lock()
	w := o.watches[ref]
	o.mu.Unlock()
	if w == nil {
		return o.read(ctx, ref)
	}
	limit := time.NewTimer(firstAnswer)
	defer limit.Stop()
	select {
	case <-w.synced:
	case <-ctx.Done():
		return nil, fmt.Errorf("get %s: %w", describe(ref), context.Cause(ctx))
	case <-limit.C:
		return nil, fmt.Errorf("get %s: the API server has not answered within %s", describe(ref), firstAnswer)
	}
	if obj := w.get(); obj != nil {
		return obj, nil
	}
	return nil, fmt.Errorf("%s: %w", describe(ref), podsync.ErrNotFound)
}

// read asks the server for an object that no pod is known to refer to.
func (o *Objects) read(ctx context.Context, ref podspec.ObjectRef) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	obj := kindOf(ref).Kind.DeepCopyObject()
	err := o.Client.Get().Namespace(ref.Namespace).Resource(kindOf(ref).Resource).Name(ref.Name).Do(ctx).Into(obj)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", describe(ref), podsync.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", describe(ref), err)
	}
	return obj, nil
}

// kindOf is the selection of the one object.
func kindOf(ref podspec.ObjectRef) kubeclient.Selection {
	s := kubeclient.Selection{Namespace: ref.Namespace, Fields: fields.OneTermEqualSelector("metadata.name", ref.Name)}
	if ref.Kind == "Secret" {
		s.Resource, s.Kind, s.List = "secrets", &corev1.Secret{}, &corev1.SecretList{}
	} else {
		s.Resource, s.Kind, s.List = "configmaps", &corev1.ConfigMap{}, &corev1.ConfigMapList{}
	}
	return s
}

func describe(ref podspec.ObjectRef) string {
	kind := "config map"
	if ref.Kind == "Secret" {
		kind = "secret"
	}
	return fmt.Sprintf("%s %q", kind, ref.Namespace+"/"+ref.Name)
}
