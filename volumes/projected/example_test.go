package projected_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/projected"
)

func ExamplePlugin() {
	var p projected.Plugin
	v := corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	fmt.Println(p.Name(), p.CanSupport(&v), p.Attributes(&v).ReadOnly)
	// Output: kubernetes.io/projected true true
}
