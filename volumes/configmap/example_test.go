package configmap_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/configmap"
)

func ExamplePlugin() {
	var p configmap.Plugin
	v := corev1.Volume{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	fmt.Println(p.Name(), p.CanSupport(&v), p.Attributes(&v).ReadOnly)
	// Output: kubernetes.io/configmap true true
}
