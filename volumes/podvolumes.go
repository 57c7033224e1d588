package volumes

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/internal/safefs"
)

// podVolumes are the volumes of a pod as they were when all of them were up.
type podVolumes struct {
	m       *Manager
	st      *podState
	pod     *corev1.Pod
	vols    []volume
	groups  []int64
	refresh time.Time
	stale   []*VolumeError
	// seen is the last object of the pod found to be no different from pod.
	seen atomic.Pointer[corev1.Pod]
}

var _ podsync.Volumes = (*podVolumes)(nil)

func newPodVolumes(m *Manager, pod *corev1.Pod, st *podState) *podVolumes {
	v := &podVolumes{m: m, st: st, pod: pod, vols: st.vols}
	for i := range v.vols {
		vol := &v.vols[i]
		for _, g := range vol.mounted.Groups {
			if !slices.Contains(v.groups, g) {
				v.groups = append(v.groups, g)
			}
		}
		v.refresh = earliest(v.refresh, vol.mounted.RefreshAt)
		if vol.stale != nil {
			v.stale = append(v.stale, vol.stale)
		}
	}
	return v
}

// of tells whether these are the volumes of the pod as it is now.
func (v *podVolumes) of(pod *corev1.Pod) bool {
	if v.pod == pod || v.seen.Load() == pod {
		return true
	}
	if !samePod(v.pod, pod) {
		return false
	}
	v.seen.Store(pod) // comparing costs a thousand times as much as the pointer
	return true
}

// due tells whether a volume is to be set up again.
func (v *podVolumes) due(ctx context.Context) bool {
	for i := range v.vols {
		if v.vols[i].due(ctx, v.m) {
			return true
		}
	}
	return false
}

// errUnmounted is the use of volumes after they were taken down.
var errUnmounted = &plainError{"the pod's volumes are being taken down"}

// HostPath returns the path to bind-mount for a container's volumeMount. A
// subPath is bound to a place of its own, and that is returned; it stays until
// the pod's volumes are unmounted. Errors are *SubPathError or *VolumeError.
func (v *podVolumes) HostPath(ctx context.Context, container string, index int, mt corev1.VolumeMount, subPath string) (string, error) {
	vol := find(v.vols, mt.Name)
	if vol == nil {
		return "", &VolumeError{Volume: mt.Name, Err: errors.New("is not mounted")}
	}
	if v.st.down.Load() {
		return "", &VolumeError{Volume: mt.Name, Err: errUnmounted}
	}
	if subPath == "" {
		return vol.mounted.Path, nil
	}
	p, err := v.subPath(ctx, vol, container, index, subPath)
	if err != nil {
		return "", &SubPathError{Container: container, Volume: mt.Name, SubPath: subPath, Err: err}
	}
	return p, nil
}

func (v *podVolumes) subPath(ctx context.Context, vol *volume, container string, index int, subPath string) (string, error) {
	if err := validSubPath(subPath); err != nil {
		return "", err
	}
	// Whoever unmounts must not meet a bind that is just being made.
	select {
	case v.st.lock <- struct{}{}:
	case <-ctx.Done():
		return "", ended(ctx)
	}
	defer v.m.release(v.st)
	if v.st.gone || v.st.down.Load() {
		return "", errUnmounted
	}
	return v.m.bindSubPath(v.pod.UID, vol, container, index, subPath)
}

// maxReadFile bounds what ReadFile reads: what a container wrote must not fill
// the agent's memory.
const maxReadFile = 1 << 20

// ReadFile reads a regular file of a volume, for environment that comes from
// files. The path stays below the volume as that of a subPath does. A file
// larger than 1 MiB is an error.
func (v *podVolumes) ReadFile(_ context.Context, volumeName, path string) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, &fileError{SubPathError{Volume: volumeName, SubPath: path, Err: err}}
	}
	vol := find(v.vols, volumeName)
	if vol == nil {
		return nil, &VolumeError{Volume: volumeName, Err: errors.New("is not mounted")}
	}
	if v.st.down.Load() {
		return nil, &VolumeError{Volume: volumeName, Err: errUnmounted}
	}
	if err := validSubPath(path); err != nil {
		return fail(err)
	}
	h, err := safefs.OpenBeneath(vol.mounted.Path, path, false)
	if err != nil {
		return fail(err)
	}
	defer h.Close()
	f, err := safefs.Reopen(h)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReadFile+1))
	if err != nil {
		return fail(err)
	}
	if len(b) > maxReadFile {
		return fail(&plainError{"it is larger than 1 MiB"})
	}
	return b, nil
}

// ReadOnly tells whether the volume can only be read.
func (v *podVolumes) ReadOnly(name string) bool {
	vol := find(v.vols, name)
	return vol != nil && vol.attrs.ReadOnly
}

// SupplementalGroups returns the groups that the volumes bring along.
func (v *podVolumes) SupplementalGroups() []int64 { return v.groups }

func validSubPath(p string) error {
	switch {
	case strings.HasPrefix(p, "/"):
		return &plainError{"it must be relative"}
	case slices.Contains(strings.Split(p, "/"), ".."):
		return &plainError{`it must not contain ".."`}
	case strings.ContainsRune(p, 0):
		return syscall.EINVAL
	}
	return nil
}
