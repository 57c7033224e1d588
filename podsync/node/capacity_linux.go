package node

import (
	"runtime"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultMaxPods is the kubelet's default for how many pods a node takes.
const DefaultMaxPods = 110

// HostCapacity returns what this machine has: CPUs, memory, the size of the
// file system that dir is on, and DefaultMaxPods. What cannot be read is left out.
func HostCapacity(dir string) corev1.ResourceList {
	c := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(DefaultMaxPods, resource.DecimalSI),
	}
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err == nil {
		c[corev1.ResourceMemory] = *resource.NewQuantity(int64(uint64(si.Totalram)*uint64(si.Unit)), resource.BinarySI)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil {
		c[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*fs.Bsize, resource.BinarySI)
	}
	return c
}
