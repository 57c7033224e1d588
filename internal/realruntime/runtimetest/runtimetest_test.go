package runtimetest_test

import (
	"testing"
	"time"

	remote "k8s.io/cri-client/pkg"

	"github.com/podsync/sdk/internal/realruntime"
	"github.com/podsync/sdk/internal/realruntime/runtimetest"
)

func TestStart(t *testing.T) {
	node := runtimetest.Start(t, realruntime.Config{})
	client, err := remote.NewRemoteRuntimeService(t.Context(), node.Endpoint(), 5*time.Second, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Version(t.Context(), "v1")
	if err != nil || version.RuntimeName != "containerd" || version.RuntimeVersion == "" {
		t.Errorf("version %v, %v", version, err)
	}
}
