package emptydir_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/volumes/emptydir"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/volumestest"
)

func vol(medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: "vol", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

func TestConformance(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{"", corev1.StorageMediumMemory} {
		t.Run("medium="+string(medium), func(t *testing.T) {
			volumestest.Plugin(t, volumestest.Case{New: func() plugin.Plugin { return emptydir.Plugin{} }, Volume: vol(medium)})
		})
	}
}

func request(t *testing.T, medium corev1.StorageMedium, m *volumestest.Mounter) *plugin.Request {
	pod := volumestest.Pod("pod-1", vol(medium))
	dir := t.TempDir()
	return &plugin.Request{
		Pod: pod, Volume: &pod.Spec.Volumes[0], Dir: filepath.Join(dir, "v", "vol"), MetaDir: filepath.Join(dir, "p", "vol"),
		Host: plugin.Host{
			Mounter: m, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
			Allocatable: func() corev1.ResourceList { return nil },
		},
	}
}

func TestCase_VOL_09_MemorySize(t *testing.T) {
	const mi, gi = int64(1) << 20, int64(1) << 30
	quantity := func(s string) *resource.Quantity {
		if s == "" {
			return nil
		}
		q := resource.MustParse(s)
		return &q
	}
	for _, test := range []struct {
		name        string
		allocatable int64
		limits      []string // of each container; "" is none
		init        string
		pod         string
		size        string
		want        int64
	}{
		{name: "VOL-09 none", allocatable: 8 * gi, limits: []string{""}, want: 8 * gi},
		{name: "VOL-09 pod limit", allocatable: 8 * gi, limits: []string{"1Gi"}, want: gi},
		{name: "VOL-09 smaller sizeLimit", allocatable: 8 * gi, limits: []string{"1Gi"}, size: "256Mi", want: 256 * mi},
		{name: "VOL-09 larger sizeLimit", allocatable: 8 * gi, limits: []string{"1Gi"}, size: "4Gi", want: gi},
		{name: "VOL-09 sizeLimit over the node", allocatable: 8 * gi, limits: []string{""}, size: "16Gi", want: 8 * gi},
		{name: "VOL-09 sizeLimit zero", allocatable: 8 * gi, limits: []string{""}, size: "0", want: 8 * gi},
		{name: "limits add up", allocatable: 8 * gi, limits: []string{"1Gi", "2Gi"}, want: 3 * gi},
		{name: "one container without limit", allocatable: 8 * gi, limits: []string{"1Gi", ""}, want: 8 * gi},
		{name: "init container without limit", allocatable: 8 * gi, limits: []string{"1Gi"}, init: "none", want: 8 * gi},
		{name: "pod-level limit", allocatable: 8 * gi, limits: []string{""}, pod: "512Mi", want: 512 * mi},
		{name: "node unknown", limits: []string{""}, size: "64Mi", want: 64 * mi},
		{name: "nothing known", limits: []string{""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			limit := func(s string) corev1.ResourceRequirements {
				if s == "" {
					return corev1.ResourceRequirements{}
				}
				return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s)}}
			}
			for _, l := range test.limits {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: limit(l)})
			}
			if test.init != "" {
				pod.Spec.InitContainers = []corev1.Container{{}}
			}
			if test.pod != "" {
				r := limit(test.pod)
				pod.Spec.Resources = &r
			}
			if got := emptydir.MemorySize(pod, quantity(test.size), test.allocatable); got != test.want {
				t.Errorf("MemorySize = %d, want %d", got, test.want)
			}
		})
	}
}

func TestMemoryMountOptions(t *testing.T) {
	var tried []string
	m := volumestest.NewMounter()
	m.MountFunc = func(_, _, fstype string, options []string) error {
		tried = append(tried, fstype+" "+strings.Join(options, ","))
		if len(tried) == 1 {
			return errors.New("invalid argument") // a kernel that does not know noswap
		}
		return nil
	}
	r := request(t, corev1.StorageMediumMemory, m)
	r.Host.Allocatable = func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ki")}
	}
	if _, err := (emptydir.Plugin{}).SetUp(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(tried), "[tmpfs size=1024,noswap tmpfs size=1024]"; got != want {
		t.Errorf("mounts tried: %s, want %s", got, want)
	}
}

// A tmpfs is gone after the node's reboot, the mark that it was set up is not.
func TestMemoryAfterReboot(t *testing.T) {
	m := volumestest.NewMounter()
	r := request(t, corev1.StorageMediumMemory, m)
	if _, err := (emptydir.Plugin{}).SetUp(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmount(r.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := (emptydir.Plugin{}).SetUp(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if up, _ := m.IsMountPoint(r.Dir); !up {
		t.Error("memory was not mounted again after the reboot")
	}
}

func TestMediumErrors(t *testing.T) {
	for _, medium := range []corev1.StorageMedium{"HugePages", "HugePages-2Mi", "Disk"} {
		r := request(t, medium, volumestest.NewMounter())
		_, err := (emptydir.Plugin{}).SetUp(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), string(medium)) {
			t.Errorf("medium %s: error %v does not name it", medium, err)
		}
		if _, err := os.Lstat(r.Dir); err == nil {
			t.Errorf("medium %s: a directory was made", medium)
		}
	}
}

func TestUnprivilegedMountsNothing(t *testing.T) {
	m := volumestest.NewMounter()
	r := request(t, corev1.StorageMediumMemory, m)
	gid := int64(2000)
	r.Host.Unprivileged, r.FSGroup = true, &gid
	if _, err := (emptydir.Plugin{}).SetUp(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if l, _ := m.List(); len(l) > 0 {
		t.Errorf("mounted %v", l)
	}
}

func ExampleMemorySize() {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
	}}}}
	limit := resource.MustParse("256Mi")
	fmt.Println(emptydir.MemorySize(pod, &limit, 8<<30)>>20, "MiB")
	// Output: 256 MiB
}
