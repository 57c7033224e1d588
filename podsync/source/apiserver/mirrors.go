package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// StageMirror is the name of the stage that Mirrors.Stage returns.
const StageMirror = "mirror"

// Mirrors keeps a mirror pod in the API server for every static pod that went
// through its stage, and deletes it with the pod: it is a stage of the sync
// phase, a Cleaner of the agent, and a loop. No pod waits for the API server on
// account of its mirror.
//
// A mirror carries, as the kubelet's does, the hash of the static pod in the
// annotation kubernetes.io/config.mirror and the Node as its owner. One that is
// being deleted, or that mirrors another content, is deleted at once and made
// anew; the static pod does not notice. Safe for concurrent use.
type Mirrors struct {
	// Client is a REST client of the API's v1.
	Client rest.Interface
	// Node is the node's name.
	Node string
	// NodeUID returns the UID of the Node object, "" as long as the node is not
	// registered: no mirror is made before. Call Kick when that changes.
	NodeUID func() types.UID
	// Known, if not nil, is called when a static pod got another mirror, with the
	// static pod's UID: its status has to be written to it. It must not block.
	Known func(static types.UID)
	// Logger tells of mirrors that cannot be made or deleted. Nil discards.
	Logger *slog.Logger

	mu      sync.Mutex
	static  map[string]*corev1.Pod // by full name
	mirrors map[string]*corev1.Pod // by full name
	// doomed are the full names of mirrors whose static pod is gone.
	doomed map[string]bool
	kick   chan struct{}
}

func fullName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// initLocked makes the zero value usable.
func (m *Mirrors) initLocked() {
	if m.kick == nil {
		m.static, m.mirrors, m.doomed = map[string]*corev1.Pod{}, map[string]*corev1.Pod{}, map[string]bool{}
		m.kick = make(chan struct{}, 1)
	}
}

// Kick makes Run look again at what is to be done.
func (m *Mirrors) Kick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.initLocked()
	m.kickLocked()
}

func (m *Mirrors) kickLocked() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// Of returns the UID of the mirror of the static pod of that namespace and name.
func (m *Mirrors) Of(namespace, name string) (uid types.UID, ok bool) {
	if m == nil {
		return "", false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	mirror := m.mirrors[namespace+"/"+name]
	if mirror == nil || mirror.DeletionTimestamp != nil {
		return "", false
	}
	return mirror.UID, true
}

// Stage returns the stage of the sync phase, named StageMirror, that asks for the
// mirror of a static pod. It makes no call and always continues.
func (m *Mirrors) Stage() podsync.Stage { return mirrorStage{m} }

type mirrorStage struct{ m *Mirrors }

var _ podsync.Prompt = mirrorStage{}

func (mirrorStage) Name() string              { return StageMirror }
func (mirrorStage) Prompt(*podsync.Sync) bool { return true }

func (st mirrorStage) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	pod := s.Pod()
	if src := pod.Annotations[podspec.AnnotationSource]; src == "" || src == SourceName {
		return podsync.Skip("NotStatic")
	}
	if st.m.want(pod) && st.m.Known != nil {
		st.m.Known(pod.UID)
	}
	return podsync.Continue()
}

// want notes that the pod is to have a mirror, and tells whether it has met one
// that was there before it.
func (m *Mirrors) want(pod *corev1.Pod) (met bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.initLocked()
	name := fullName(pod)
	old := m.static[name]
	if old == pod {
		return false
	}
	m.static[name] = pod
	delete(m.doomed, name)
	m.kickLocked()
	return m.mirrors[name] != nil && (old == nil || old.UID != pod.UID)
}

// Cleaner returns the Cleaner that has the mirrors of pods that are gone deleted.
// It does so in Run's own time, so that a static pod that comes back under its
// UID need not wait for the API server.
func (m *Mirrors) Cleaner() podsync.Cleaner { return mirrorCleaner{m} }

type mirrorCleaner struct{ m *Mirrors }

func (mirrorCleaner) Name() string { return "mirror pods" }

// Pods returns the UIDs of the static pods that have a mirror. Of one that this
// process has not seen the hash is given, which is its UID unless it had one of
// its own.
func (c mirrorCleaner) Pods(context.Context) ([]types.UID, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	var uids []types.UID
	for name, pod := range c.m.mirrors {
		if c.m.doomed[name] {
			continue
		}
		uid := types.UID(pod.Annotations[podspec.AnnotationMirror])
		if static := c.m.static[name]; static != nil {
			uid = static.UID
		}
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids, nil
}

// Remove marks what is to be deleted; it makes no call.
func (c mirrorCleaner) Remove(_ context.Context, uid types.UID) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.initLocked()
	for name, pod := range c.m.static {
		if pod.UID == uid {
			delete(c.m.static, name)
			c.m.doomed[name] = true
		}
	}
	for name, pod := range c.m.mirrors {
		if c.m.static[name] == nil && types.UID(pod.Annotations[podspec.AnnotationMirror]) == uid {
			c.m.doomed[name] = true
		}
	}
	c.m.kickLocked()
	return nil
}

// mirrorAction is one call to be made: the deletion of a mirror or its creation.
type mirrorAction struct {
	remove *corev1.Pod
	create *corev1.Pod
}

// mirrorActions decides what is to be done, in the order of the names. A mirror
// that is to be replaced is deleted now and made when it is gone.
func mirrorActions(static, mirrors map[string]*corev1.Pod, doomed map[string]bool) []mirrorAction {
	names := maps.Clone(doomed)
	if names == nil {
		names = map[string]bool{}
	}
	for n := range static {
		names[n] = true
	}
	for n := range mirrors {
		names[n] = true
	}
	var out []mirrorAction
	for _, n := range slices.Sorted(maps.Keys(names)) {
		pod, mirror := static[n], mirrors[n]
		switch {
		case mirror != nil && pod == nil && (doomed[n] || mirror.DeletionTimestamp != nil),
			mirror != nil && pod != nil && (mirror.DeletionTimestamp != nil || mirror.Annotations[podspec.AnnotationMirror] != mirrorHash(pod)):
			out = append(out, mirrorAction{remove: mirror})
		case mirror == nil && pod != nil:
			out = append(out, mirrorAction{create: pod})
		}
	}
	return out
}

// mirrorHash is what a mirror's annotation says of its static pod.
func mirrorHash(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[podspec.AnnotationHash], string(pod.UID))
}

// Run makes and deletes mirrors until ctx ends, then returns nil. What fails is
// tried again, after 1 s at first and later after up to 1 min.
func (m *Mirrors) Run(ctx context.Context) error {
	log := m.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m.mu.Lock()
	m.initLocked()
	m.mu.Unlock()
	pause := time.Second
	for {
		failed := false
		for _, a := range m.actions() {
			if err := m.act(ctx, a); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "mirror pod is tried again later", "err", err)
				failed = true
			}
		}
		var again <-chan time.Time
		if failed {
			again = time.After(pause)
			pause = min(2*pause, time.Minute)
		} else {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.kick:
		case <-again:
		}
	}
}

func (m *Mirrors) actions() []mirrorAction {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.doomed {
		if m.mirrors[n] == nil {
			delete(m.doomed, n)
		}
	}
	return mirrorActions(m.static, m.mirrors, m.doomed)
}

func (m *Mirrors) act(ctx context.Context, a mirrorAction) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if a.remove != nil {
		zero := int64(0)
		err := m.Client.Delete().Namespace(a.remove.Namespace).Resource("pods").Name(a.remove.Name).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &a.remove.UID}}).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete mirror pod %s (uid %s): %w", fullName(a.remove), a.remove.UID, err)
		}
		m.gone(a.remove)
		return nil
	}
	owner := types.UID("")
	if m.NodeUID != nil {
		owner = m.NodeUID()
	}
	if owner == "" {
		return nil // Kick comes when the node is registered
	}
	made := &corev1.Pod{}
	err := m.Client.Post().Namespace(a.create.Namespace).Resource("pods").Body(mirrorOf(a.create, m.Node, owner)).Do(ctx).Into(made)
	if apierrors.IsAlreadyExists(err) {
		// Not ours to see yet, or a pod of somebody else in its place.
		err = m.Client.Get().Namespace(a.create.Namespace).Resource("pods").Name(a.create.Name).Do(ctx).Into(made)
		if _, mirror := isMirror(made); err == nil && !mirror {
			err = fmt.Errorf("a pod that is no mirror has its name")
		}
	}
	if err != nil {
		return fmt.Errorf("create mirror pod of static pod %s (uid %s): %w", fullName(a.create), a.create.UID, err)
	}
	m.observe(made)
	return nil
}

// mirrorOf is the mirror of a static pod as it is created.
func mirrorOf(pod *corev1.Pod, node string, nodeUID types.UID) *corev1.Pod {
	c := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, Labels: maps.Clone(pod.Labels), Annotations: maps.Clone(pod.Annotations),
	}, Spec: *pod.Spec.DeepCopy()}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[podspec.AnnotationMirror] = mirrorHash(pod)
	controller := true
	c.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node, UID: nodeUID, Controller: &controller,
	}}
	return c
}

// observe takes in a mirror as the server has it.
func (m *Mirrors) observe(mirror *corev1.Pod) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.initLocked()
	name := fullName(mirror)
	old := m.mirrors[name]
	m.mirrors[name] = mirror
	static := m.static[name]
	m.kickLocked()
	m.mu.Unlock()
	if static != nil && m.Known != nil && (old == nil || old.UID != mirror.UID) {
		m.Known(static.UID)
	}
}

// gone takes in that a mirror is not there any more.
func (m *Mirrors) gone(mirror *corev1.Pod) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.initLocked()
	if name := fullName(mirror); m.mirrors[name] != nil && m.mirrors[name].UID == mirror.UID {
		delete(m.mirrors, name)
		m.kickLocked()
	}
}

// replace takes in all mirrors there are.
func (m *Mirrors) replace(mirrors []*corev1.Pod) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.initLocked()
	now := map[string]types.UID{}
	for _, p := range mirrors {
		now[fullName(p)] = p.UID
	}
	for n, p := range m.mirrors {
		if now[n] != p.UID {
			delete(m.mirrors, n)
		}
	}
	m.kickLocked()
	m.mu.Unlock()
	for _, p := range mirrors {
		m.observe(p)
	}
}
