//go:build linux

package realruntime_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/internal/realruntime"
)

func TestPrivateImagesNeedThePassword(t *testing.T) {
	node, registry := start(t, realruntime.Config{})
	_, images := connect(t, node)
	web := &runtimeapi.ImageSpec{Image: registry.Image("private/web:1")}
	if _, err := images.PullImage(t.Context(), web, nil, nil); err == nil || !strings.Contains(err.Error(), "no basic auth credentials") {
		t.Errorf("pull without a password: %v", err)
	}
	if _, err := images.PullImage(t.Context(), web, &runtimeapi.AuthConfig{Username: registry.User, Password: "guess"}, nil); err == nil {
		t.Error("pull with a wrong password went well")
	}
	if _, err := images.PullImage(t.Context(), web, &runtimeapi.AuthConfig{Username: registry.User, Password: registry.Password}, nil); err != nil {
		t.Errorf("pull with the password: %v", err)
	}
	if _, err := images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: registry.Image("library/busybox:1")}, nil, nil); err != nil {
		t.Errorf("pull of a public image: %v", err)
	}
}

func TestDockerConfigJSON(t *testing.T) {
	r := realruntime.Registry{Address: "127.0.0.1:5055", User: "demo", Password: "secret"}
	b, err := r.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Auths map[string]struct{ Username, Password, Auth string }
	}
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Auths["127.0.0.1:5055"]; got.Username != "demo" || got.Password != "secret" || got.Auth != "ZGVtbzpzZWNyZXQ=" {
		t.Errorf("got %+v", got)
	}
}

func TestRegistryThatCannotListenSaysWhy(t *testing.T) {
	_, first := start(t, realruntime.Config{NoNetwork: true})
	var log bytes.Buffer
	_, err := realruntime.StartRegistry(t.Context(), realruntime.RegistryConfig{Address: first.Address, Output: &log})
	if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(log.String(), "address already in use") {
		t.Errorf("%v, log %q", err, &log)
	}
}
