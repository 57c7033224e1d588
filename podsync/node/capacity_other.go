//go:build !linux

package node

import (
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultMaxPods is the kubelet's default for how many pods a node takes.
const DefaultMaxPods = 110

// HostCapacity returns what this machine has: its CPUs, and DefaultMaxPods.
func HostCapacity(string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(DefaultMaxPods, resource.DecimalSI),
	}
}
