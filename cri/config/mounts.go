package config

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// MountsInput is what a container's mounts are made of.
type MountsInput struct {
	// Pod and Container are required.
	Pod       *corev1.Pod
	Container *corev1.Container
	// Volumes are the pod's volumes; nil makes every volumeMount an error.
	Volumes podsync.Volumes
	// Dirs are the pod's directories; an empty EtcHosts mounts no hosts file.
	Dirs podsync.Dirs
	// Env is the container's environment, for subPathExpr.
	Env []*runtimeapi.KeyValue
	// PodIPs are the pod's addresses; a pod of its own network without any gets
	// no hosts file.
	PodIPs []string
	// TerminationFile is the file on the host that becomes the container's
	// terminationMessagePath, as TerminationFile names it; "" mounts none.
	TerminationFile string
	// RecursiveReadOnly tells that the pod's runtime handler can do recursive
	// read-only mounts.
	RecursiveReadOnly bool
	// Images are the image volumes that are present on the node, by volume name.
	// An image volume that is not there is an error.
	Images map[string]*runtimeapi.ImageSpec
	// UserNamespace is the pod's mapping, for id-mapped mounts; nil for none.
	UserNamespace *runtimeapi.UserNamespace
	// SELinux tells that SELinux is enabled, so that files made for the pod are
	// relabelled.
	SELinux bool
	// Extra are a site's additions. One on the path of a volumeMount is an error.
	Extra []podsync.ExtraMount
}

// Mounts returns the mounts of a container: its volumeMounts in the order of
// the spec, the managed hosts file, the termination message file, a site's
// additions. Errors carry the reason CreateContainerConfigError and show no
// path of the host but where podsync.Volumes puts one into its own.
func Mounts(ctx context.Context, in MountsInput) ([]*runtimeapi.Mount, error) {
	c := in.Container
	list := make([]*runtimeapi.Mount, 0, len(c.VolumeMounts)+2)
	for i := range c.VolumeMounts {
		m, err := in.volumeMount(ctx, i)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil, err
			}
			return nil, inContainer(in.Pod, c.Name, fmt.Errorf("volumeMount %q at %s: %w", c.VolumeMounts[i].Name, c.VolumeMounts[i].MountPath, err))
		}
		list = append(list, m)
	}
	extra, err := in.extraMounts(list)
	if err != nil {
		return nil, inContainer(in.Pod, c.Name, err)
	}
	if in.Dirs.EtcHosts != "" && WantsHostsFile(in.Pod, c, in.PodIPs) && !mountsAt(extra, EtcHosts) {
		list = append(list, in.idMapped(&runtimeapi.Mount{
			ContainerPath: EtcHosts, HostPath: in.Dirs.EtcHosts, SelinuxRelabel: in.SELinux,
		}))
	}
	if in.TerminationFile != "" && c.TerminationMessagePath != "" {
		list = append(list, in.idMapped(&runtimeapi.Mount{
			ContainerPath: absolute(c.TerminationMessagePath), HostPath: in.TerminationFile, SelinuxRelabel: in.SELinux,
		}))
	}
	return append(list, extra...), nil
}

// volumeMount returns the i-th volumeMount of the container.
func (in *MountsInput) volumeMount(ctx context.Context, i int) (*runtimeapi.Mount, error) {
	vm := &in.Container.VolumeMounts[i]
	subPath, err := in.subPath(vm)
	if err != nil {
		return nil, err
	}
	propagation, err := criPropagation(vm.MountPropagation)
	if err != nil {
		return nil, err
	}
	recursive, err := recursiveReadOnly(vm, in.RecursiveReadOnly)
	if err != nil {
		return nil, err
	}
	m := &runtimeapi.Mount{
		ContainerPath: absolute(vm.MountPath), Readonly: vm.ReadOnly, Propagation: propagation, RecursiveReadOnly: recursive,
	}
	if isImageVolume(in.Pod, vm.Name) {
		if m.Image = in.Images[vm.Name]; m.Image == nil {
			return nil, errors.New("it is an image volume and its image is not on the node")
		}
		m.ImageSubPath, m.Readonly = subPath, true
		return m, nil
	}
	if in.Volumes == nil {
		return nil, errors.New("the pod has no mounted volumes")
	}
	if m.HostPath, err = in.Volumes.HostPath(ctx, in.Container.Name, i, *vm, subPath); err != nil {
		return nil, err
	}
	m.Readonly = vm.ReadOnly || in.Volumes.ReadOnly(vm.Name)
	return in.idMapped(m), nil
}

// subPath returns the mount's subPath, expanded and checked.
func (in *MountsInput) subPath(vm *corev1.VolumeMount) (string, error) {
	p := vm.SubPath
	if vm.SubPathExpr != "" {
		var err error
		if p, err = expandStrict(vm.SubPathExpr, envLookup(in.Env)); err != nil {
			return "", fmt.Errorf("subPathExpr: %w", err)
		}
		if p == "" {
			// The whole volume is not what was asked for.
			return "", fmt.Errorf("subPathExpr %q is empty once expanded", vm.SubPathExpr)
		}
	}
	switch {
	case p == "":
		return "", nil
	case path.IsAbs(p):
		return "", fmt.Errorf("subPath %q must be relative", p)
	case strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("subPath %q holds a NUL byte", p)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", fmt.Errorf("subPath %q must not contain '..'", p)
		}
	}
	return p, nil
}

// extraMounts returns the site's mounts for this container. list are those of
// its volumes.
func (in *MountsInput) extraMounts(list []*runtimeapi.Mount) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	for _, e := range in.Extra {
		if e.Container != "" && e.Container != in.Container.Name {
			continue
		}
		if mountsAt(list, e.ContainerPath) || mountsAt(out, e.ContainerPath) {
			return nil, fmt.Errorf("a stage adds a mount at %s, where another one is already", e.ContainerPath)
		}
		propagation, err := criPropagation(&e.Propagation)
		if err != nil {
			return nil, fmt.Errorf("a stage adds a mount at %s: %w", e.ContainerPath, err)
		}
		out = append(out, &runtimeapi.Mount{
			ContainerPath: absolute(e.ContainerPath), HostPath: e.HostPath, Readonly: e.ReadOnly, SelinuxRelabel: e.SELinuxRelabel, Propagation: propagation,
		})
	}
	return out, nil
}

// idMapped adds the pod's user namespace to a mount.
func (in *MountsInput) idMapped(m *runtimeapi.Mount) *runtimeapi.Mount {
	if in.UserNamespace != nil && in.UserNamespace.Mode == runtimeapi.NamespaceMode_POD {
		m.UidMappings, m.GidMappings = in.UserNamespace.Uids, in.UserNamespace.Gids
	}
	return m
}

// WantsHostsFile tells whether the container gets the managed /etc/hosts: not
// when it mounts something there itself, and not while a pod of its own network
// has no address.
func WantsHostsFile(pod *corev1.Pod, c *corev1.Container, podIPs []string) bool {
	if len(podIPs) == 0 && !pod.Spec.HostNetwork {
		return false
	}
	for i := range c.VolumeMounts {
		if absolute(c.VolumeMounts[i].MountPath) == EtcHosts {
			return false
		}
	}
	return true
}

func mountsAt(list []*runtimeapi.Mount, containerPath string) bool {
	containerPath = absolute(containerPath)
	for _, m := range list {
		if absolute(m.ContainerPath) == containerPath {
			return true
		}
	}
	return false
}

// absolute returns a path of the container from its root.
func absolute(p string) string { return path.Clean("/" + p) }

func isImageVolume(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			return pod.Spec.Volumes[i].Image != nil
		}
	}
	return false
}

func criPropagation(p *corev1.MountPropagationMode) (runtimeapi.MountPropagation, error) {
	if p == nil {
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	}
	switch *p {
	case "", corev1.MountPropagationNone:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE, nil
	case corev1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case corev1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("unknown mountPropagation %q", *p)
	}
}

// recursiveReadOnly tells whether the mounts below the mount are to be
// read-only too.
func recursiveReadOnly(vm *corev1.VolumeMount, supported bool) (bool, error) {
	if vm.RecursiveReadOnly == nil || *vm.RecursiveReadOnly == "" || *vm.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	mode := *vm.RecursiveReadOnly
	switch {
	case mode != corev1.RecursiveReadOnlyIfPossible && mode != corev1.RecursiveReadOnlyEnabled:
		return false, fmt.Errorf("unknown recursiveReadOnly %q", mode)
	case !vm.ReadOnly:
		return false, fmt.Errorf("recursiveReadOnly %s needs readOnly", mode)
	case vm.MountPropagation != nil && *vm.MountPropagation != corev1.MountPropagationNone:
		return false, fmt.Errorf("recursiveReadOnly %s does not go with mountPropagation %s", mode, *vm.MountPropagation)
	case mode == corev1.RecursiveReadOnlyEnabled && !supported:
		return false, fmt.Errorf("recursiveReadOnly %s: the container runtime cannot do it", mode)
	}
	return supported, nil
}
