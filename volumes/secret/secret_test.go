package secret_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/secret"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestConformance(t *testing.T) {
	o := &volumestest.Objects{}
	o.SetSecret("app", map[string]string{"a": "1", "b": "2"})
	volumestest.Plugin(t, volumestest.Case{
		New:     func() plugin.Plugin { return secret.Plugin{} },
		Volume:  corev1.Volume{Name: "vol", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "app"}}},
		Objects: o,
		Missing: &volumestest.Objects{},
	})
}
