package images_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/podsync"
)

var digest = "sha256:" + strings.Repeat("0", 64)

func TestCase_IMG_09_InvalidNames(t *testing.T) {
	for _, tt := range []struct {
		image string
		ok    bool
	}{
		{"registry.local/App:1", false}, {"http://registry.local/app", false}, {strings.Repeat("a", 64), false},
		{" registry.local/app:1", false}, {"Registry.local/app", true}, {"", false}, {"app@sha256:0", false},
	} {
		s := &service{}
		var ev events
		r := request("u1", tt.image)
		r.Events = ev.add
		_, err := images.New(images.Options{Service: s}).Ensure(t.Context(), r)
		if tt.ok {
			if err != nil {
				t.Errorf("%q: %v", tt.image, err)
			}
			continue
		}
		if podsync.ReasonOf(err) != "InvalidImageName" || len(s.pulls)+len(s.asked) > 0 {
			t.Errorf("%q: %v, calls %v %v", tt.image, err, s.pulls, s.asked)
		}
		if got := ev.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning InspectFailed ") {
			t.Errorf("%q: events %q", tt.image, got)
		}
	}
}

func TestCase_IMG_10_ShortNamesAreNotRewritten(t *testing.T) {
	node, err := images.ParseConfig([]byte(logins("docker.io/library/busybox", "u", "docker.io/library/app", "u")))
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"busybox": "busybox:latest", "busybox@" + digest: "busybox@" + digest, "app:v1@" + digest: "app:v1@" + digest, "app:v1": "app:v1",
	} {
		s := &service{}
		if _, err := images.New(images.Options{Service: s, Node: node}).Ensure(t.Context(), request("u1", image)); err != nil {
			t.Fatal(err)
		}
		if len(s.pulls) != 1 || s.pulls[0] != want+" u" {
			t.Errorf("%q: pulled %q", image, s.pulls)
		}
		if got, err := images.NormalizeName(image); got != want || err != nil {
			t.Errorf("%q: %q, %v", image, got, err)
		}
	}
}

func TestDefaultPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"registry.local:5000/app": corev1.PullAlways, "app": corev1.PullAlways, "app:1": corev1.PullIfNotPresent, "app:latest": corev1.PullAlways,
		"app@" + digest: corev1.PullIfNotPresent, "app:latest@" + digest: corev1.PullAlways, "registry.local:5000/a/b:latest": corev1.PullAlways, "BAD": corev1.PullIfNotPresent,
	} {
		if got := images.DefaultPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}
