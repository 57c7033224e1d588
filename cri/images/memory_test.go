package images_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
)

// The same against a runtime that stores images and has a registry.
func TestAgainstARuntime(t *testing.T) {
	rt := memory.New(memory.Options{Registry: map[string]memory.RemoteImage{
		"registry.local/team/app:1": {Username: "u", Password: "geheim", Image: memory.Image{User: "1000"}},
		"busybox":                   {},
		"busybox:1":                 {Missing: true},
		"busybox:2":                 {Err: status.Error(codes.Unavailable, "no route to host")},
	}})
	defer rt.Shutdown()
	p := images.New(images.Options{Service: rt})

	private := request("u1", "registry.local/team/app:1")
	if _, err := p.Ensure(t.Context(), private); podsync.ReasonOf(err) != "ErrImagePull" {
		t.Errorf("anonymous: %v", err)
	}
	p.Reset("u1", "")
	private.Secrets = []*corev1.Secret{configJSON("s", logins("registry.local", "stranger", "registry.local/team", "u"))}
	img, err := p.Ensure(t.Context(), private)
	if err != nil || img.UID == nil || *img.UID != 1000 {
		t.Fatalf("%+v, %v", img, err)
	}
	again, err := p.Ensure(t.Context(), private)
	if err != nil || again.Ref != img.Ref {
		t.Errorf("present: %+v, %v; pulled %+v", again, err, img)
	}
	if img, err := p.Ensure(t.Context(), request("u1", "busybox")); err != nil || *img.UID != 0 {
		t.Errorf("public: %+v, %v", img, err)
	}
	for image, reason := range map[string]string{"busybox:1": "ErrImagePull", "busybox:2": "ErrImagePull"} {
		_, err := p.Ensure(t.Context(), request("u1", image))
		var e *images.Error
		if !errors.As(err, &e) || e.Reason() != reason {
			t.Errorf("%s: %v, reason %s", image, err, podsync.ReasonOf(err))
		}
	}
	for _, c := range rt.Pulls() {
		if strings.HasPrefix(c.Image, "docker.io/") {
			t.Errorf("the runtime was asked for %s", c.Image)
		}
	}
}
