// Package downwardapi is the plugin of downwardAPI volumes: facts about the pod
// itself as files.
package downwardapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/volumes/atomicwriter"
	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/plugin"
)

// Plugin serves downwardAPI volumes. The zero value is ready to use.
type Plugin struct{}

var (
	_ plugin.Plugin = Plugin{}
	_ plugin.Keeper = Plugin{}
)

// Name returns "kubernetes.io/downward-api".
func (Plugin) Name() string { return "kubernetes.io/downward-api" }

// CanSupport tells whether the volume is a downwardAPI.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.DownwardAPI != nil }

// Attributes: read-only, readable by fsGroup, refreshed when the pod changes.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{ReadOnly: true, FSGroup: true, SELinux: true, Refresh: true}
}

// SetUp writes the facts as they are now.
func (Plugin) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	src := r.Volume.DownwardAPI
	p, err := Payload(r.Pod, src.Items, src.DefaultMode, r.Host.Allocatable())
	if err != nil {
		return plugin.Mounted{}, err
	}
	return content.SetUp(ctx, r, p, true)
}

// Usable tells whether files written earlier are there.
func (Plugin) Usable(r *plugin.Request) (plugin.Mounted, bool) { return content.Usable(r) }

// TearDown unmounts the tmpfs.
func (Plugin) TearDown(ctx context.Context, r *plugin.Removal) error { return content.TearDown(ctx, r) }

// Payload makes the files of downwardAPI items. allocatable stands in for limits
// that a container does not have.
func Payload(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32, allocatable corev1.ResourceList) (atomicwriter.Payload, error) {
	p := atomicwriter.Payload{}
	var errs []error
	for _, it := range items {
		f, err := file(pod, it, mode, allocatable)
		if err != nil {
			errs = append(errs, fmt.Errorf("downwardAPI item %q: %w", it.Path, err))
			continue
		}
		p[it.Path] = f
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

func file(pod *corev1.Pod, it corev1.DownwardAPIVolumeFile, mode *int32, allocatable corev1.ResourceList) (atomicwriter.File, error) {
	var f atomicwriter.File
	if err := atomicwriter.ValidatePath(it.Path); err != nil {
		return f, err
	}
	m, err := content.Mode(it.Mode, mode)
	if err != nil {
		return f, err
	}
	var v string
	switch {
	case it.FieldRef != nil:
		v, err = Field(pod, it.FieldRef.FieldPath)
	case it.ResourceFieldRef != nil:
		v, err = Resource(pod, it.ResourceFieldRef, allocatable)
	default:
		err = errors.New("needs a fieldRef or a resourceFieldRef")
	}
	return atomicwriter.File{Data: []byte(v), Mode: m}, err
}

// Field returns a field of the pod's metadata as a downwardAPI volume shows it:
// name, namespace, uid, labels, annotations, or one label or annotation by its
// key, as in metadata.labels['app'].
func Field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	}
	for prefix, from := range map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations} {
		if rest, ok := strings.CutPrefix(path, prefix+"['"); ok {
			if key, ok := strings.CutSuffix(rest, "']"); ok && key != "" {
				return from[key], nil
			}
		}
	}
	return "", fmt.Errorf("field %q is not supported in a volume", path)
}

// lines shows a map one pair a line, sorted, values quoted.
func lines(m map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(k + "=" + strconv.Quote(m[k]))
	}
	return b.String()
}

// Resource returns a container's request or limit, divided by the divisor and
// rounded up. A limit of cpu, memory or ephemeral storage that the container
// does not have is what pods may use of the node.
func Resource(pod *corev1.Pod, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	c := container(pod, ref.ContainerName)
	if c == nil {
		return "", fmt.Errorf("the pod has no container %q", ref.ContainerName)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	res := corev1.ResourceName(name)
	known := res == corev1.ResourceCPU || res == corev1.ResourceMemory || res == corev1.ResourceEphemeralStorage
	if !ok || !known && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		return "", fmt.Errorf("resource %q is not supported", ref.Resource)
	}
	var q apiresource.Quantity
	switch kind {
	case "requests":
		q = c.Resources.Requests[res]
	case "limits":
		if q = c.Resources.Limits[res]; q.IsZero() && known {
			q = allocatable[res]
		}
	default:
		return "", fmt.Errorf("resource %q is not supported", ref.Resource)
	}
	value, divisor := q.Value(), ref.Divisor.Value()
	if res == corev1.ResourceCPU {
		value, divisor = q.MilliValue(), ref.Divisor.MilliValue()
		if ref.Divisor.IsZero() {
			divisor = 1000
		}
	}
	switch {
	case ref.Divisor.Sign() < 0:
		return "", fmt.Errorf("divisor %s of resource %q is negative", ref.Divisor.String(), ref.Resource)
	case divisor == 0:
		divisor = 1
	}
	n := value / divisor
	if value%divisor > 0 {
		n++
	}
	return strconv.FormatInt(n, 10), nil
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, cs := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range cs {
			if cs[i].Name == name {
				return &cs[i]
			}
		}
	}
	return nil
}
