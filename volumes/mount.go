package volumes

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/plugin"
)

// volume is one volume of a pod that is up.
type volume struct {
	spec    *corev1.Volume
	plugin  Plugin
	attrs   plugin.Attributes
	mounted plugin.Mounted
	refs    []objectRef
	// stale says why it could not be brought up to date; it is usable all the same.
	stale *VolumeError
}

// Mount sets up every volume that a container of the pod uses, and brings up to
// date those made of objects or pod fields that changed; it returns when all are
// up. When nothing changed since the last call that is known without asking the
// system. It is idempotent, also over a restart. When volumes fail the others
// are set up all the same, and the error is a *PodError. A volume that was up
// and only could not be brought up to date does not fail: the stage Mounted
// reports it and tries again.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) (podsync.Volumes, error) {
	v, err := m.mount(ctx, pod)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (m *Manager) mount(ctx context.Context, pod *corev1.Pod) (*podVolumes, error) {
	if st := m.state(pod.UID); st != nil {
		if v := st.current.Load(); v != nil && v.of(pod) && !v.due(ctx) {
			return v, nil
		}
	}
	if _, err := m.layout.PodDir(pod.UID); err != nil {
		return nil, &PodError{Pod: podsync.Ref(pod), Op: "mount", Volumes: []*VolumeError{{Err: err}}}
	}
	st, err := m.acquire(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	defer m.release(st)
	return m.mountLocked(ctx, pod, st)
}

func (m *Manager) mountLocked(ctx context.Context, pod *corev1.Pod, st *podState) (*podVolumes, error) {
	prior := st.vols
	before := st.current.Load()
	podChanged := before == nil || !samePod(before.pod, pod)
	names := used(pod)
	jobs := make([]*job, 0, len(names))
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		if !names[spec.Name] {
			continue
		}
		delete(names, spec.Name)
		jobs = append(jobs, m.plan(ctx, spec, find(prior, spec.Name), podChanged))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		jobs = append(jobs, &job{err: &VolumeError{Volume: name, Err: errNotInSpec}})
	}
	st.down.Store(false)
	m.run(ctx, pod, jobs)
	st.vols = keep(jobs)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("mount volumes of pod %s: %w", podsync.Ref(pod), ended(ctx))
	}
	if failed := failures(jobs); len(failed) > 0 {
		st.current.Store(nil)
		return nil, &PodError{Pod: podsync.Ref(pod), Op: "mount", Volumes: failed}
	}
	v := newPodVolumes(m, pod, st)
	st.current.Store(v)
	return v, nil
}

// job is one volume on its way.
type job struct {
	vol   volume
	prior *volume
	setUp bool
	up    bool
	err   *VolumeError
}

// plan decides what a volume needs.
func (m *Manager) plan(ctx context.Context, spec *corev1.Volume, prior *volume, podChanged bool) *job {
	p, err := m.pluginFor(spec)
	if err != nil {
		return &job{err: &VolumeError{Volume: spec.Name, Err: err}}
	}
	j := &job{vol: volume{spec: spec, plugin: p, attrs: p.Attributes(spec)}, prior: prior}
	if prior == nil || prior.plugin.Name() != p.Name() {
		j.prior, j.setUp = nil, true
		return j
	}
	j.setUp = prior.due(ctx, m) || podChanged && j.vol.attrs.Refresh ||
		prior.spec != spec && !apiequality.Semantic.DeepEqual(prior.spec, spec)
	j.vol.mounted, j.vol.refs, j.up = prior.mounted, prior.refs, true
	return j
}

// run sets up what needs it, side by side.
func (m *Manager) run(ctx context.Context, pod *corev1.Pod, jobs []*job) {
	var todo []*job
	for _, j := range jobs {
		if j.err == nil && j.setUp {
			todo = append(todo, j)
		}
	}
	if len(todo) == 1 {
		m.setUp(ctx, pod, todo[0])
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, m.parallel)
	for _, j := range todo {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m.setUp(ctx, pod, j)
		})
	}
	wg.Wait()
}

func (m *Manager) setUp(ctx context.Context, pod *corev1.Pod, j *job) {
	rec := &recorder{Objects: m.objects}
	r, err := m.request(pod, &j.vol, rec)
	if err != nil {
		j.err = &VolumeError{Volume: j.vol.spec.Name, Err: err}
		return
	}
	mounted, err := callSetUp(ctx, j.vol.plugin, r)
	if err == nil {
		j.vol.mounted, j.vol.refs, j.vol.stale, j.up = mounted, rec.refs, nil, true
		return
	}
	failed := &VolumeError{Volume: j.vol.spec.Name, Err: err}
	if k, ok := j.vol.plugin.(plugin.Keeper); ok && !j.up {
		j.vol.mounted, j.up = k.Usable(r)
	}
	if j.up {
		j.vol.stale = failed
		return
	}
	j.err = failed
}

// callSetUp contains a plugin's panic: it runs on a goroutine where nobody else
// would.
func callSetUp(ctx context.Context, p Plugin, r *plugin.Request) (mounted plugin.Mounted, err error) {
	defer func() {
		if x := recover(); x != nil {
			r.Host.Logger.ErrorContext(ctx, "volume plugin panicked", "plugin", p.Name(), "panic", x, "stack", string(debug.Stack()))
			err = fmt.Errorf("plugin %s panicked: %v", p.Name(), x)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return plugin.Mounted{}, err
	}
	return p.SetUp(ctx, r)
}

func (m *Manager) request(pod *corev1.Pod, v *volume, rec *recorder) (*plugin.Request, error) {
	dir, err := m.layout.VolumeDir(pod.UID, v.plugin.Name(), v.spec.Name)
	if err != nil {
		return nil, err
	}
	meta, err := m.layout.PluginDir(pod.UID, v.plugin.Name(), v.spec.Name)
	if err != nil {
		return nil, err
	}
	r := &plugin.Request{Pod: pod, Volume: v.spec, Dir: dir, MetaDir: meta, Objects: rec, Host: m.host}
	if sc := pod.Spec.SecurityContext; sc != nil && v.attrs.FSGroup {
		r.FSGroup = sc.FSGroup
	}
	r.Host.Logger = m.host.Logger.With("pod", pod.Namespace+"/"+pod.Name, "uid", string(pod.UID), "volume", v.spec.Name)
	return r, nil
}

// due tells whether the volume is to be set up again.
func (v *volume) due(ctx context.Context, m *Manager) bool {
	if v.stale != nil {
		return true
	}
	if at := v.mounted.RefreshAt; !at.IsZero() && !m.host.Clock.Now().Before(at) {
		return true
	}
	for i := range v.refs {
		if v.refs[i].changed(ctx, m.objects) {
			return true
		}
	}
	return false
}

// samePod tells whether nothing changed that a volume may show.
func samePod(a, b *corev1.Pod) bool {
	return a == b || maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		apiequality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func find(vols []volume, name string) *volume {
	for i := range vols {
		if vols[i].spec.Name == name {
			return &vols[i]
		}
	}
	return nil
}

func keep(jobs []*job) []volume {
	out := make([]volume, 0, len(jobs))
	for _, j := range jobs {
		if j.up {
			out = append(out, j.vol)
		}
	}
	return out
}

func failures(jobs []*job) []*VolumeError {
	var out []*VolumeError
	for _, j := range jobs {
		if j.err != nil {
			out = append(out, j.err)
		}
	}
	return out
}

// earliest returns the earlier of two times, of which zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
