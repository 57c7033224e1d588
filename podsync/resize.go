package podsync

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/podsync/podspec"
)

// Allocator decides which resources a pod of the node has when its source asks
// for others than it was admitted with, and remembers what pods were given.
// Stages see a pod with the resources it was given, never with those it waits
// for. The agent calls it from one goroutine, and Forget from any; admit has the
// kubelet's. An Allocator that is nil gives every pod what it asks for, at once.
type Allocator interface {
	// Allocated returns what the pod was given before this process, or earlier in
	// its life: the pod itself when nothing else is recorded, or else a copy with
	// the recorded resources.
	Allocated(ctx context.Context, pod *corev1.Pod) *corev1.Pod
	// Judge says whether the pod, which has the resources of have, may get those
	// that it asks for. others are the pods that hold the node's resources, with
	// what they were given.
	Judge(ctx context.Context, want, have *corev1.Pod, others []*corev1.Pod) Resize
	// Record remembers, before anything else comes of it, what a pod is given. An
	// error is logged; what is not recorded is judged anew after a restart.
	Record(ctx context.Context, pod *corev1.Pod) error
	// Forget drops the record of a pod that is gone.
	Forget(ctx context.Context, uid types.UID) error
}

// Resize says what becomes of the resources that a pod's source asks for. The
// zero value is that the pod was given them.
type Resize struct {
	// Reason is "" for given, or corev1.PodReasonDeferred or PodReasonInfeasible.
	Reason string
	// Message says why, to people.
	Message string
}

// Pending tells whether the pod has other resources than its source asks for.
func (r Resize) Pending() bool { return r.Reason != "" }

// The events of a resize, as the kubelet names them.
const (
	EventResizeStarted    = "ResizeStarted"
	EventResizeDeferred   = "ResizeDeferred"
	EventResizeInfeasible = "ResizeInfeasible"
	EventResizeCompleted  = "ResizeCompleted"
	EventResizeError      = "ResizeError"
)

// resizeRetry is how often deferred resizes are judged again at the least. What
// frees resources has them judged at once.
const resizeRetry = 3 * time.Minute

// resizing is a worker's part of a resize that its source asks for.
type resizing struct {
	wanted  bool // the source asks for other resources than were given
	judged  bool // since something last changed for it
	verdict Resize
	since   time.Time // of the first time it was asked for
}

// wantLocked takes in a new version of a pod from its source. One that was
// admitted keeps what it was given until it is given something else.
func (a *Agent) wantLocked(w *worker, pod *corev1.Pod) {
	w.want = pod
	if a.cfg.Allocator == nil || !w.holds {
		w.pod, w.resize = pod, resizing{}
		return
	}
	given := WithResources(pod, w.pod)
	w.pod = given
	if given == pod || w.state != stateSync {
		w.resize = resizing{}
		return
	}
	if !w.resize.wanted {
		w.resize.since = time.Now()
	}
	w.resize.wanted, w.resize.judged = true, false
	a.kickAdmission()
}

// reconsiderLocked has the deferred resizes judged again: something changed that
// may let one through. Infeasible ones stay so until they are asked for anew.
func (a *Agent) reconsiderLocked() {
	a.roomEpoch++
	for _, w := range a.workers {
		if w.resize.verdict.Reason != corev1.PodReasonInfeasible && w.resize.judged {
			w.resize.judged = false
			a.kickAdmission()
		}
	}
}

// nextResize takes the resize whose turn it is.
func (a *Agent) nextResize() (w *worker, want, have *corev1.Pod, others []*corev1.Pod, epoch uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopping || a.cfg.Allocator == nil {
		return nil, nil, nil, nil, 0
	}
	for _, o := range a.workers {
		if o.resize.wanted && !o.resize.judged && o.state == stateSync && (w == nil || resizeOrder(o, w) < 0) {
			w = o
		}
	}
	if w == nil {
		return nil, nil, nil, nil, 0
	}
	return w, w.want, w.pod, a.admittedLocked(w), a.roomEpoch
}

// anyDeferred tells whether a resize waits for room.
func (a *Agent) anyDeferred() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		if w.resize.wanted && w.resize.verdict.Reason == corev1.PodReasonDeferred && w.state == stateSync {
			return true
		}
	}
	return false
}

// resizeOrder is the kubelet's: what needs no more than it has, then by
// priority, then by quality of service, then what waits longest.
func resizeOrder(x, y *worker) int {
	grows := func(w *worker) int {
		if requestsGrow(w.want, w.pod) {
			return 1
		}
		return 0
	}
	priority := func(w *worker) int32 {
		if w.want.Spec.Priority != nil {
			return *w.want.Spec.Priority
		}
		return 0
	}
	class := func(w *worker) int {
		return slices.Index([]corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}, podspec.QOS(w.want))
	}
	return cmp.Or(cmp.Compare(grows(x), grows(y)), cmp.Compare(priority(y), priority(x)), cmp.Compare(class(x), class(y)),
		x.resize.since.Compare(y.resize.since), cmp.Compare(x.uid, y.uid))
}

// requestsGrow tells whether want asks for more of a resource than have.
func requestsGrow(want, have *corev1.Pod) bool {
	was := resourcehelper.PodRequests(have, resourcehelper.PodResourcesOptions{})
	for n, q := range resourcehelper.PodRequests(want, resourcehelper.PodResourcesOptions{}) {
		if q.Cmp(was[n]) > 0 {
			return true
		}
	}
	return false
}

// resizeNext judges one resize; false when there is none.
func (a *Agent) resizeNext(ctx context.Context) bool {
	w, want, have, others, epoch := a.nextResize()
	if w == nil {
		return false
	}
	verdict := a.cfg.Allocator.Judge(ctx, want, have, others)
	if ctx.Err() != nil {
		return false
	}
	if !verdict.Pending() {
		// First the record: what is given in the runtime must be known to be given.
		a.record(ctx, want)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.want != want || w.state != stateSync {
		return true // a newer version is judged next
	}
	changed := w.resize.verdict.Reason != verdict.Reason
	w.resize.verdict = verdict
	w.resize.judged = verdict.Reason == corev1.PodReasonInfeasible || epoch == a.roomEpoch
	rec := a.recorder(w)
	switch verdict.Reason {
	case "":
		shrinks := !requestsGrow(want, have)
		w.pod, w.resize = want, resizing{}
		rec.Event(want, corev1.EventTypeNormal, EventResizeStarted, "the pod is given the resources that it asks for")
		if w.soft != nil {
			w.soft.cancel(ErrSuperseded)
		}
		if shrinks {
			a.roomFreedLocked()
		}
	case corev1.PodReasonInfeasible:
		if changed {
			rec.Event(want, corev1.EventTypeWarning, EventResizeInfeasible, verdict.Message)
		}
	default:
		if changed {
			rec.Event(want, corev1.EventTypeNormal, EventResizeDeferred, verdict.Message)
		}
	}
	a.wakeLocked(w, CauseUpdate) // so that its status says so
	return true
}

// record remembers what a pod is given.
func (a *Agent) record(ctx context.Context, pod *corev1.Pod) {
	if err := a.cfg.Allocator.Record(ctx, pod); err != nil {
		a.log.WarnContext(ctx, "what the pod was given is not recorded; a restart of the agent would judge it anew",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "err", err)
	}
}

// resizable are the resources that change in place.
func resizable() [2]corev1.ResourceName {
	return [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}
}

// WithResources returns the pod with the CPU and memory that given has, for the
// pod as a whole and for each container that both have. It is the pod itself
// when those are the same, else a copy.
func WithResources(pod, given *corev1.Pod) *corev1.Pod {
	out := pod
	edit := func(i int, of func(*corev1.Pod, int) *corev1.ResourceRequirements, had *corev1.ResourceRequirements) {
		is := of(pod, i)
		for _, n := range resizable() {
			if !ResourceDiffers(is, had, n) {
				continue
			}
			if out == pod {
				out = pod.DeepCopy()
			}
			setAmounts(of(out, i), had, n)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := containerNamed(given.Spec.InitContainers, pod.Spec.InitContainers[i].Name); c != nil {
			edit(i, func(p *corev1.Pod, i int) *corev1.ResourceRequirements { return &p.Spec.InitContainers[i].Resources }, &c.Resources)
		}
	}
	for i := range pod.Spec.Containers {
		if c := containerNamed(given.Spec.Containers, pod.Spec.Containers[i].Name); c != nil {
			edit(i, func(p *corev1.Pod, i int) *corev1.ResourceRequirements { return &p.Spec.Containers[i].Resources }, &c.Resources)
		}
	}
	if pod.Spec.Resources != nil || given.Spec.Resources != nil {
		edit(0, func(p *corev1.Pod, _ int) *corev1.ResourceRequirements {
			if p != pod && p.Spec.Resources == nil {
				p.Spec.Resources = &corev1.ResourceRequirements{}
			}
			return p.Spec.Resources
		}, given.Spec.Resources)
	}
	return out
}

func containerNamed(l []corev1.Container, name string) *corev1.Container {
	for i := range l {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}

// setAmounts gives to the request and limit of one resource that from has.
func setAmounts(to, from *corev1.ResourceRequirements, n corev1.ResourceName) {
	request, limit := amounts(from, n)
	set := func(l *corev1.ResourceList, q resource.Quantity) {
		switch {
		case !q.IsZero():
			if *l == nil {
				*l = corev1.ResourceList{}
			}
			(*l)[n] = q
		case *l != nil:
			delete(*l, n)
		}
	}
	set(&to.Requests, request)
	set(&to.Limits, limit)
}

// Envelope returns the pod with the larger of what it was given and what its
// running containers still have: what the cgroup around them must allow while a
// resize is under way. Growing, it is raised before the containers are; shrinking,
// it is lowered when they have been. It is the pod itself when there is no
// difference.
func Envelope(pod *corev1.Pod, rt *RuntimePod) *corev1.Pod {
	var has *corev1.Pod
	instead := func() *corev1.Pod {
		if has == nil {
			has = pod.DeepCopy()
		}
		return has
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if r := rt.running(c.Name); r != nil && outdated(&c.Resources, r.Actuated) {
			widen(&instead().Spec.InitContainers[i].Resources, r.Actuated)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if r := rt.running(c.Name); r != nil && outdated(&c.Resources, r.Actuated) {
			widen(&instead().Spec.Containers[i].Resources, r.Actuated)
		}
	}
	if rt != nil && pod.Spec.Resources != nil && len(rt.Sandboxes) > 0 && outdated(pod.Spec.Resources, rt.Sandboxes[0].Actuated) {
		widen(instead().Spec.Resources, rt.Sandboxes[0].Actuated)
	}
	if has == nil {
		return pod
	}
	if podspec.QOS(has) != podspec.QOS(pod) {
		// Mixed, the two may look like another class, and that is another cgroup.
		// The requests only weigh; the limits are what must not come too early.
		for i := range pod.Spec.InitContainers {
			has.Spec.InitContainers[i].Resources.Requests = pod.Spec.InitContainers[i].Resources.Requests
		}
		for i := range pod.Spec.Containers {
			has.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Requests
		}
		if has.Spec.Resources != nil {
			has.Spec.Resources.Requests = pod.Spec.Resources.Requests
		}
	}
	return has
}

// outdated tells whether CPU or memory differ from what is known to be in force.
func outdated(spec, actuated *corev1.ResourceRequirements) bool {
	return actuated != nil && (ResourceDiffers(spec, actuated, corev1.ResourceMemory) || ResourceDiffers(spec, actuated, corev1.ResourceCPU))
}

// widen makes of r the larger of r and o.
func widen(r, o *corev1.ResourceRequirements) {
	for _, n := range resizable() {
		request, limit := amounts(r, n)
		oRequest, oLimit := amounts(o, n)
		if oRequest.Cmp(request) > 0 {
			request = oRequest
		}
		if limitCmp(oLimit, limit) > 0 {
			limit = oLimit
		}
		setAmounts(r, &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{n: request}, Limits: corev1.ResourceList{n: limit}}, n)
	}
}

// ResizeInProgress tells whether a running container, or the sandbox, is known
// to have other resources than the pod was given.
func ResizeInProgress(pod *corev1.Pod, rt *RuntimePod) bool {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if r := rt.running(c.Name); r != nil && outdated(&c.Resources, r.Actuated) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if r := rt.running(c.Name); r != nil && outdated(&c.Resources, r.Actuated) {
			return true
		}
	}
	return rt != nil && len(rt.Sandboxes) > 0 && rt.Sandboxes[0].Ready && outdated(pod.Spec.Resources, rt.Sandboxes[0].Actuated)
}

// ResourceDiffers tells whether two sets of resources have another request or
// limit of the resource. A request that is missing counts as nothing, a limit
// that is missing, or zero, as none. nil is an empty set.
func ResourceDiffers(a, b *corev1.ResourceRequirements, n corev1.ResourceName) bool {
	if a == b {
		return false
	}
	ar, al := amounts(a, n)
	br, bl := amounts(b, n)
	return ar.Cmp(br) != 0 || al.Cmp(bl) != 0
}

// ResourceShrinks tells whether to go from have to want makes an amount of the
// resource smaller and none larger. A limit that goes away grows, one that is
// added shrinks.
func ResourceShrinks(want, have *corev1.ResourceRequirements, n corev1.ResourceName) bool {
	wr, wl := amounts(want, n)
	hr, hl := amounts(have, n)
	requests, limits := wr.Cmp(hr), limitCmp(wl, hl)
	return requests <= 0 && limits <= 0 && (requests < 0 || limits < 0)
}

// amounts returns the request and the limit of a resource, zero for none.
func amounts(r *corev1.ResourceRequirements, n corev1.ResourceName) (request, limit resource.Quantity) {
	if r == nil {
		return request, limit
	}
	return r.Requests[n], r.Limits[n]
}

// limitCmp compares limits, of which zero is the largest.
func limitCmp(a, b resource.Quantity) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Cmp(b)
}
