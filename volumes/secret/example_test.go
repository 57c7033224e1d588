package secret_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/secret"
)

func ExamplePlugin() {
	var p secret.Plugin
	v := corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}
	fmt.Println(p.Name(), p.CanSupport(&v), p.Attributes(&v).ReadOnly)
	// Output: kubernetes.io/secret true true
}
