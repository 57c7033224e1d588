package images_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/images"
)

// What a pod whose image is there costs in each start.
func BenchmarkEnsurePresent(b *testing.B) {
	s := &service{present: map[string]bool{"registry.local/app:1": true}}
	p := images.New(images.Options{Service: s})
	r := request("u1", "registry.local/app:1")
	b.ReportAllocs()
	for b.Loop() {
		s.asked = s.asked[:0]
		if _, err := p.Ensure(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKeyring(b *testing.B) {
	secrets := []*corev1.Secret{configJSON("a", logins("registry.local", "u", "registry.local/team", "v")), configJSON("b", logins("docker.io", "w"))}
	b.ReportAllocs()
	for b.Loop() {
		k, err := images.NewKeyring(secrets)
		if err != nil || len(k.Lookup("registry.local/team/app:1")) != 2 {
			b.Fatal(err)
		}
	}
}
