// Package emptydir is the plugin of emptyDir volumes: a directory, or a tmpfs
// for medium Memory, that lives as long as the pod does.
package emptydir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/volumes/ownership"
	"github.com/podsync/sdk/volumes/plugin"
)

const (
	name = "kubernetes.io/empty-dir"
	// readyFile marks a volume that was set up wholly, as the kubelet's does. From
	// then on its mode and owner are the containers' business.
	readyFile = "ready"
	perm      = 0o777
)

// Plugin serves emptyDir volumes. The zero value is ready to use.
type Plugin struct{}

var _ plugin.Plugin = Plugin{}

// Name returns "kubernetes.io/empty-dir".
func (Plugin) Name() string { return name }

// CanSupport tells whether the volume is an emptyDir.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.EmptyDir != nil }

// Attributes: writable, owned by fsGroup, relabelled.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{FSGroup: true, SELinux: true}
}

// SetUp makes the directory with mode 0777 whatever the umask, and mounts a
// tmpfs on it for medium Memory. What an earlier SetUp finished it leaves alone:
// content, mode and owner stay over a restart of the agent.
func (Plugin) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	m := plugin.Mounted{Path: r.Dir}
	src := r.Volume.EmptyDir
	switch {
	case src.Medium == corev1.StorageMediumDefault, src.Medium == corev1.StorageMediumMemory:
	case strings.HasPrefix(string(src.Medium), string(corev1.StorageMediumHugePages)):
		return m, fmt.Errorf("emptyDir medium %q is not supported", src.Medium)
	default:
		return m, fmt.Errorf("emptyDir medium %q is unknown", src.Medium)
	}
	if ready(r) {
		up, err := present(r, src.Medium)
		if err != nil || up {
			return m, err
		}
	}
	if err := Prepare(ctx, r, src.Medium, src.SizeLimit); err != nil {
		return m, err
	}
	if r.FSGroup != nil && !r.Host.Unprivileged {
		if err := ownership.Apply(ctx, r.Dir, ownership.Options{Group: *r.FSGroup}); err != nil {
			return m, err
		}
	}
	return m, markReady(r)
}

// TearDown unmounts and removes the volume with all that is in it.
func (Plugin) TearDown(ctx context.Context, r *plugin.Removal) error { return Remove(ctx, r) }

// Prepare makes an empty directory of mode 0777 at r.Dir, with a tmpfs mounted
// on it for medium Memory; one that is there already is used as it is. Other
// plugins put their files into it.
func Prepare(ctx context.Context, r *plugin.Request, medium corev1.StorageMedium, limit *apiresource.Quantity) error {
	if err := plugin.MakeDirs(filepath.Dir(r.Dir), 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(r.Dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make directory: %w", err)
	}
	if medium == corev1.StorageMediumMemory && !r.Host.Unprivileged {
		if err := mountMemory(r, limit); err != nil {
			return err
		}
	}
	fi, err := os.Lstat(r.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("make directory: %w", err)
	case !fi.IsDir():
		return fmt.Errorf("make directory %s: there is something else of that name", r.Dir)
	case fi.Mode()&(fs.ModePerm|fs.ModeSticky) != perm:
		if err := os.Chmod(r.Dir, perm); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return context.Cause(ctx)
}

func mountMemory(r *plugin.Request, limit *apiresource.Quantity) error {
	mounted, err := r.Host.Mounter.IsMountPoint(r.Dir)
	if err != nil {
		return fmt.Errorf("look for a mount on %s: %w", r.Dir, err)
	}
	if mounted {
		return nil
	}
	var options []string
	allocatable := r.Host.Allocatable()
	if size := MemorySize(r.Pod, limit, allocatable.Memory().Value()); size > 0 {
		options = append(options, "size="+strconv.FormatInt(size, 10))
	}
	// Memory that may be swapped out is not kept from the disk. Kernels before
	// 6.4 refuse the option.
	if err = r.Host.Mounter.Mount("tmpfs", r.Dir, "tmpfs", append(options[:len(options):len(options)], "noswap")); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("mount memory: %w (a process without the right to mount needs volumes.Options.Unprivileged)", err)
		}
		err = r.Host.Mounter.Mount("tmpfs", r.Dir, "tmpfs", options)
	}
	if err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}
	return nil
}

// MemorySize returns the size of a memory volume in bytes: the smallest positive
// of what pods may use of the node's memory, the pod's own memory limit, if
// every container of it has one, and the volume's sizeLimit. 0 means that none
// is known, and leaves the size to the kernel.
func MemorySize(pod *corev1.Pod, limit *apiresource.Quantity, allocatable int64) int64 {
	size := max(allocatable, 0)
	least := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	least(podMemoryLimit(pod))
	if limit != nil {
		least(limit.Value())
	}
	return size
}

// podMemoryLimit returns the memory limit of the pod as its cgroup has it, 0 if
// there is none.
func podMemoryLimit(pod *corev1.Pod) int64 {
	limited := pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero()
	if !limited && !allLimited(pod.Spec.InitContainers) || !limited && !allLimited(pod.Spec.Containers) {
		return 0
	}
	limits := resource.PodLimits(pod, resource.PodResourcesOptions{})
	return limits.Memory().Value()
}

func allLimited(cs []corev1.Container) bool {
	for i := range cs {
		if cs[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	return true
}

// Remove unmounts r.Dir and removes it and r.MetaDir. Anything mounted below is
// an error, and stays.
func Remove(ctx context.Context, r *plugin.Removal) error {
	// The mark goes first: a volume half removed is not ready.
	if err := plugin.RemoveAll(ctx, r.MetaDir); err != nil {
		return err
	}
	mounted, err := r.Host.Mounter.IsMountPoint(r.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for a mount on %s: %w", r.Dir, err)
	case mounted:
		if err := r.Host.Mounter.Unmount(r.Dir); err != nil {
			return fmt.Errorf("unmount %s: %w", r.Dir, err)
		}
	}
	return plugin.RemoveAll(ctx, r.Dir)
}

func ready(r *plugin.Request) bool {
	_, err := os.Lstat(filepath.Join(r.MetaDir, readyFile))
	return err == nil
}

// present tells whether a volume marked ready is still there: a tmpfs does not
// outlive the node's reboot.
func present(r *plugin.Request, medium corev1.StorageMedium) (bool, error) {
	fi, err := os.Lstat(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the volume: %w", err)
	}
	if medium != corev1.StorageMediumMemory || r.Host.Unprivileged {
		return fi.IsDir(), nil
	}
	mounted, err := r.Host.Mounter.IsMountPoint(r.Dir)
	if err != nil {
		return false, fmt.Errorf("look for a mount on %s: %w", r.Dir, err)
	}
	return mounted, nil
}

func markReady(r *plugin.Request) error {
	if err := plugin.MakeDirs(r.MetaDir, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.MetaDir, readyFile), nil, 0o644); err != nil {
		return fmt.Errorf("note that the volume is set up: %w", err)
	}
	return nil
}
