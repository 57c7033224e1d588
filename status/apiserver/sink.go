// Package apiserver writes pods' statuses to a Kubernetes API server, and deletes
// there the pods that were asked to go and have given everything back.
package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// requestTimeout bounds one request.
const requestTimeout = 30 * time.Second

// Sink is a status.Sink. It reads the pod, merges what is the agent's to say into
// what others said, and sends the difference as a strategic merge patch of the
// status subresource with the pod's UID, so that a pod that was deleted and made
// anew under its name never gets the status of the old one. When nothing differs
// nothing is sent.
//
// A pod that the server does not have, or has with another UID, is
// podsync.ErrNotFound: the Manager tries again when the status changes, and when
// it is told to by Manager.Resend.
//
// Statuses of static pods go to their mirrors; see Mirror. Safe for concurrent use.
type Sink struct {
	// Client is a REST client of the API's v1. Required.
	Client rest.Interface
	// Mirror returns the UID of the mirror pod of a static pod, ok is false when
	// there is none. nil: there are no mirrors, and no static pods.
	Mirror func(namespace, name string) (uid types.UID, ok bool)

	mu   sync.Mutex
	sent map[types.UID]*corev1.PodStatus // what the server was last told, by the API's UID
}

var _ status.Sink = (*Sink)(nil)

// errOtherPod says that the server's pod of that name is another one.
var errOtherPod = fmt.Errorf("the API server has another pod of that name: %w", podsync.ErrNotFound)

// Patch implements status.Sink. A pod that is Finished and has a deletion time
// in the API is then deleted with grace 0.
func (k *Sink) Patch(ctx context.Context, r status.Record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pod, mirror, err := k.get(ctx, r.Ref)
	if err != nil {
		return err
	}
	next := Merge(&pod.Status, &r.Status)
	patched, err := k.patch(ctx, pod, next)
	if err != nil {
		return err
	}
	if !mirror { // nobody asks whether a mirror drifted
		k.remember(pod.UID, next)
	}
	if r.Finished && !mirror && patched.DeletionTimestamp != nil && status.Terminal(patched.Status.Phase) {
		return k.delete(ctx, patched)
	}
	return nil
}

// Delete implements status.Sink: the pod is gone from the node, so that one that
// was asked to go can go from the server.
func (k *Sink) Delete(ctx context.Context, ref status.Ref) error {
	k.remember(ref.UID, nil)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pod, mirror, err := k.get(ctx, ref)
	switch {
	case errors.Is(err, podsync.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	if mirror || pod.DeletionTimestamp == nil {
		return nil
	}
	return k.delete(ctx, pod)
}

// Drifted tells whether the server's pod, as seen in a watch, says something else
// in the agent's part of the status than it was told: somebody else wrote to it,
// or it comes from a backup. Call Manager.Resend then. It makes no request.
func (k *Sink) Drifted(pod *corev1.Pod) bool {
	k.mu.Lock()
	sent := k.sent[pod.UID]
	k.mu.Unlock()
	return sent != nil && !apiequality.Semantic.DeepEqual(owned(&pod.Status), owned(sent))
}

func (k *Sink) remember(uid types.UID, s *corev1.PodStatus) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s == nil {
		delete(k.sent, uid)
		return
	}
	if k.sent == nil {
		k.sent = map[types.UID]*corev1.PodStatus{}
	}
	k.sent[uid] = s
}

// get reads the API's pod for a status, the mirror for that of a static pod.
func (k *Sink) get(ctx context.Context, ref status.Ref) (pod *corev1.Pod, mirror bool, err error) {
	uid := ref.UID
	if k.Mirror != nil {
		if m, ok := k.Mirror(ref.Namespace, ref.Name); ok {
			uid, mirror = m, true
		}
	}
	pod = &corev1.Pod{}
	err = k.Client.Get().Namespace(ref.Namespace).Resource("pods").Name(ref.Name).Do(ctx).Into(pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, fmt.Errorf("get pod %s: %w: %w", ref, podsync.ErrNotFound, err)
	case err != nil:
		return nil, false, fmt.Errorf("get pod %s: %w", ref, err)
	case pod.UID != uid:
		return nil, false, fmt.Errorf("pod %s: uid %s in the API: %w", ref, pod.UID, errOtherPod)
	}
	return pod, mirror, nil
}

// patchBody is a pod as far as a patch is made of it.
type patchBody struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            corev1.PodStatus `json:"status"`
}

func (k *Sink) patch(ctx context.Context, pod *corev1.Pod, next *corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := statusPatch(pod, next)
	if err != nil {
		return nil, fmt.Errorf("make the status patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if patch == nil {
		return pod, nil
	}
	out := &corev1.Pod{}
	err = k.Client.Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("status").Body(patch).Do(ctx).Into(out)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err) && k.replaced(ctx, pod):
		return nil, fmt.Errorf("patch status of pod %s/%s (uid %s): %w: %w", pod.Namespace, pod.Name, pod.UID, podsync.ErrNotFound, err)
	case err != nil:
		return nil, fmt.Errorf("patch status of pod %s/%s (uid %s): %w", pod.Namespace, pod.Name, pod.UID, err)
	}
	return out, nil
}

// replaced tells whether a patch was invalid for the reason that the pod is
// another one by now: the server calls that an immutable field.
func (k *Sink) replaced(ctx context.Context, pod *corev1.Pod) bool {
	now := &corev1.Pod{}
	err := k.Client.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Do(ctx).Into(now)
	return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
}

// statusPatch is the strategic merge patch from the pod's status to next, with
// the UID as its precondition; nil when they are the same.
func statusPatch(pod *corev1.Pod, next *corev1.PodStatus) ([]byte, error) {
	if apiequality.Semantic.DeepEqual(&pod.Status, next) {
		return nil, nil
	}
	before, err := json.Marshal(patchBody{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(patchBody{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *next})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil || string(patch) == fmt.Sprintf(`{"metadata":{"uid":%q}}`, pod.UID) {
		return nil, err
	}
	return patch, nil
}

func (k *Sink) delete(ctx context.Context, pod *corev1.Pod) error {
	zero := int64(0)
	err := k.Client.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s/%s (uid %s), which has ended: %w", pod.Namespace, pod.Name, pod.UID, err)
	}
	k.remember(pod.UID, nil)
	return nil
}
