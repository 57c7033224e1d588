package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podsync/sdk/podsync/kubeclient"
)

// The kubelet's times.
const (
	defaultStatusPeriod  = 10 * time.Second
	defaultReportPeriod  = 5 * time.Minute
	defaultLeaseDuration = 40 * time.Second
	requestTimeout       = 10 * time.Second
	firstRetry           = time.Second
	leaseNamespace       = "kube-node-lease"
)

// Registration makes the Node object and keeps its status and its lease. The
// status is written when something in it changed, and every ReportPeriod so that
// it is seen to be alive; the lease is renewed four times in its duration.
type Registration struct {
	// Client is how the API server is reached. Required.
	Client *kubeclient.Client
	// Describe returns the Node as it is to be: name, labels, annotations, the
	// taints with which it is registered, and the whole status. It is asked every
	// StatusPeriod and after Kick, and must be quick. Required. The times of
	// conditions are filled in.
	Describe func(ctx context.Context) *corev1.Node
	// Registered is called with the Node as the server has it, at first and when
	// it changed, by whomever. It must not block.
	Registered func(node *corev1.Node)
	// StatusPeriod is how often Describe is asked; default 10 s.
	StatusPeriod time.Duration
	// ReportPeriod is after what time the status is written although nothing
	// changed; default 5 min.
	ReportPeriod time.Duration
	// LeaseDuration is how long the node counts as alive after a renewal; default
	// 40 s.
	LeaseDuration time.Duration
	// Logger tells of changes of the connection. Nil discards.
	Logger *slog.Logger

	mu       sync.Mutex
	uid      types.UID
	told     string // the version that Registered was called with
	reported time.Time
	kick     chan struct{}
}

// UID returns the Node object's UID, "" as long as the node is not registered.
func (r *Registration) UID() types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uid
}

// Kick has the status looked at now, not at the next StatusPeriod.
func (r *Registration) Kick() {
	select {
	case r.kicks() <- struct{}{}:
	default:
	}
}

func (r *Registration) kicks() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kick == nil {
		r.kick = make(chan struct{}, 1)
	}
	return r.kick
}

// Run registers the node and keeps it registered until ctx ends, then returns
// nil. The Node object stays.
func (r *Registration) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.runLease(ctx) })
	period := orDefault(r.StatusPeriod, defaultStatusPeriod)
	retry := firstRetry
	var lost bool
	for {
		wait := period
		err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !lost {
				r.log().WarnContext(ctx, "the node's status cannot be written; it is tried again", "err", err)
			}
			lost, wait = true, retry
			retry = min(2*retry, period)
		default:
			if lost {
				r.log().InfoContext(ctx, "the node's status is written again")
			}
			lost, retry = false, firstRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.kicks():
		}
		timer.Stop()
	}
}

func (r *Registration) log() *slog.Logger {
	if r.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Logger
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// once brings the Node object up to date.
func (r *Registration) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	want := r.Describe(ctx)
	have := &corev1.Node{}
	err := r.Client.Core.Get().Resource("nodes").Name(want.Name).Do(ctx).Into(have)
	switch {
	case apierrors.IsNotFound(err):
		created := NextNode(nil, want, metav1.Now())
		have = &corev1.Node{}
		if err := r.Client.Core.Post().Resource("nodes").Body(created).Do(ctx).Into(have); err != nil {
			return fmt.Errorf("register node %s: %w", want.Name, err)
		}
		r.log().InfoContext(ctx, "node registered", "node", want.Name, "uid", have.UID)
	case err != nil:
		return fmt.Errorf("get node %s: %w", want.Name, err)
	}
	next := NextNode(have, want, metav1.Now())
	if have, err = r.write(ctx, have, next); err != nil {
		return fmt.Errorf("update node %s: %w", want.Name, err)
	}
	r.mu.Lock()
	changed := r.uid != have.UID || r.told != have.ResourceVersion
	r.uid, r.told = have.UID, have.ResourceVersion
	r.mu.Unlock()
	if r.Registered != nil && changed {
		r.Registered(have)
	}
	return nil
}

// NextNode is the Node to be written: what the server has with the labels,
// annotations and status that the agent wants. What others wrote stays: labels,
// annotations, taints, conditions of other types. A condition's transition time
// changes with its status only. have is nil for a node that does not exist. It is
// a pure function and changes neither.
func NextNode(have, want *corev1.Node, now metav1.Time) *corev1.Node {
	var next *corev1.Node
	if have == nil {
		next = &corev1.Node{ObjectMeta: *want.ObjectMeta.DeepCopy(), Spec: *want.Spec.DeepCopy()}
	} else {
		next = have.DeepCopy()
	}
	merge := func(into *map[string]string, from map[string]string) {
		if *into == nil && len(from) > 0 {
			*into = map[string]string{}
		}
		maps.Copy(*into, from)
	}
	merge(&next.Labels, want.Labels)
	merge(&next.Annotations, want.Annotations)
	old := next.Status
	next.Status = *want.Status.DeepCopy()
	next.Status.Conditions = nil
	next.Status.VolumesAttached, next.Status.Config = old.VolumesAttached, old.Config
	for i := range want.Status.Conditions {
		c := want.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		if o := nodeCondition(&old, c.Type); o != nil && o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
		next.Status.Conditions = append(next.Status.Conditions, c)
	}
	for i := range old.Conditions {
		if c := &old.Conditions[i]; nodeCondition(&want.Status, c.Type) == nil {
			next.Status.Conditions = append(next.Status.Conditions, *c)
		}
	}
	return next
}

func nodeCondition(s *corev1.NodeStatus, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// same tells whether two statuses differ in heartbeats only.
func same(a, b *corev1.NodeStatus) bool {
	strip := func(s *corev1.NodeStatus) *corev1.NodeStatus {
		c := s.DeepCopy()
		for i := range c.Conditions {
			c.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return c
	}
	return apiequality.Semantic.DeepEqual(strip(a), strip(b))
}

func (r *Registration) write(ctx context.Context, have, next *corev1.Node) (*corev1.Node, error) {
	if !apiequality.Semantic.DeepEqual(have.Labels, next.Labels) || !apiequality.Semantic.DeepEqual(have.Annotations, next.Annotations) {
		meta := func(n *corev1.Node) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels, Annotations: n.Annotations}}
		}
		if err := r.patch(ctx, next.Name, "", meta(have), meta(next), have); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	due := time.Since(r.reported) >= orDefault(r.ReportPeriod, defaultReportPeriod)
	r.mu.Unlock()
	if !due && same(&have.Status, &next.Status) {
		return have, nil
	}
	err := r.patch(ctx, next.Name, "status", &corev1.Node{Status: have.Status}, &corev1.Node{Status: next.Status}, have)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.reported = time.Now()
	r.mu.Unlock()
	return have, nil
}

// patch sends the difference of two nodes; out becomes the server's answer.
func (r *Registration) patch(ctx context.Context, name, subresource string, from, to, out *corev1.Node) error {
	a, err := json.Marshal(from)
	if err != nil {
		return err
	}
	b, err := json.Marshal(to)
	if err != nil {
		return err
	}
	p, err := strategicpatch.CreateTwoWayMergePatch(a, b, corev1.Node{})
	if err != nil {
		return err
	}
	req := r.Client.Core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(name)
	if subresource != "" {
		req = req.SubResource(subresource)
	}
	answer := &corev1.Node{}
	if err := req.Body(p).Do(ctx).Into(answer); err != nil {
		return err
	}
	*out = *answer
	return nil
}

// runLease renews the node's lease.
func (r *Registration) runLease(ctx context.Context) {
	duration := orDefault(r.LeaseDuration, defaultLeaseDuration)
	retry := firstRetry
	for {
		wait := duration / 4
		if err := r.renew(ctx, duration); err != nil && ctx.Err() == nil {
			r.log().DebugContext(ctx, "the node's lease is not renewed", "err", err)
			wait = min(retry, wait)
			retry *= 2
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (r *Registration) renew(ctx context.Context, duration time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	name := r.Describe(ctx).Name
	uid := r.UID()
	seconds, now := int32(duration/time.Second), metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{}
	leases := func() *coordinationv1.Lease {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &name, &seconds, &now
		if uid != "" {
			lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}}
		}
		return lease
	}
	err := r.Client.Coordination.Get().Namespace(leaseNamespace).Resource("leases").Name(name).Do(ctx).Into(lease)
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leaseNamespace}}
		err = r.Client.Coordination.Post().Namespace(leaseNamespace).Resource("leases").Body(leases()).Do(ctx).Error()
	case err == nil:
		err = r.Client.Coordination.Put().Namespace(leaseNamespace).Resource("leases").Name(name).Body(leases()).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", name, err)
	}
	return nil
}
