package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/podspec"
)

// watched is one object that is followed, and the store of its reflector.
type watched struct {
	o   *Objects
	ref podspec.ObjectRef
	// synced is closed when the server has answered once.
	synced chan struct{}

	mu     sync.Mutex
	obj    runtime.Object // nil: it does not exist
	once   bool
	users  []types.UID
	cancel context.CancelFunc
	ended  bool // stopped before it was begun
}

func newWatched(o *Objects, ref podspec.ObjectRef) *watched {
	return &watched{o: o, ref: ref, synced: make(chan struct{})}
}

func (w *watched) begin(cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel = cancel
	if w.ended {
		cancel()
	}
}

func (w *watched) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.cancel != nil {
		w.cancel()
	}
}

func (w *watched) setUsers(uids []types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users = uids
}

func (w *watched) get() runtime.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.obj
}

func (w *watched) run(ctx context.Context) {
	log := w.o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	kubeclient.Follow(ctx, w.o.Client, w.o.Parameters, kindOf(w.ref), w, log)
}

// set takes in the object, nil when it does not exist, and wakes the pods that
// refer to it if that is news.
func (w *watched) set(obj runtime.Object) {
	w.mu.Lock()
	first, changed := !w.once, !sameVersion(w.obj, obj)
	w.obj, w.once = obj, true
	users := w.users
	if immutable(obj) && w.cancel != nil {
		w.cancel() // it can only be deleted from now on, and the pod keeps what it has
	}
	w.mu.Unlock()
	if first {
		close(w.synced)
	}
	if changed && w.o.Bus != nil && len(users) > 0 {
		w.o.Bus.Publish(podsync.TopicObjectsChanged, users...)
	}
}

func sameVersion(a, b runtime.Object) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return version(a) == version(b)
}

// version is the UID and the resource version of the object.
func version(o runtime.Object) string {
	switch o := o.(type) {
	case *corev1.Secret:
		return string(o.UID) + "/" + o.ResourceVersion
	case *corev1.ConfigMap:
		return string(o.UID) + "/" + o.ResourceVersion
	default:
		return ""
	}
}

func immutable(o runtime.Object) bool {
	switch o := o.(type) {
	case *corev1.Secret:
		return o.Immutable != nil && *o.Immutable
	case *corev1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	default:
		return false
	}
}

// Add implements cache.ReflectorStore.
func (w *watched) Add(obj any) error { return w.Update(obj) }

// Update implements cache.ReflectorStore.
func (w *watched) Update(obj any) error {
	o, ok := obj.(runtime.Object)
	if !ok {
		return fmt.Errorf("%s: %T is no object", describe(w.ref), obj)
	}
	w.set(o)
	return nil
}

// Delete implements cache.ReflectorStore.
func (w *watched) Delete(any) error {
	w.set(nil)
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *watched) Replace(objs []any, _ string) error {
	if len(objs) == 0 {
		w.set(nil)
		return nil
	}
	return w.Update(objs[0])
}

// Resync implements cache.ReflectorStore; there is nothing to do.
func (*watched) Resync() error { return nil }
