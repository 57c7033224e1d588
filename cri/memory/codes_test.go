package memory_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/podsync/sdk/cri/memory"
)

// TestUnknownThings: which calls answer NotFound and which are idempotent is containerd's choice.
func TestUnknownThings(t *testing.T) {
	n := newNode(t, memory.Options{})
	ctx := t.Context()
	sandbox := n.sandbox(podConfig("web"))
	tests := []struct {
		name string
		call func() error
		want codes.Code
	}{
		{"StopContainer", func() error { return n.StopContainer(ctx, "none", 1) }, codes.OK},
		{"RemoveContainer", func() error { return n.RemoveContainer(ctx, "none") }, codes.OK},
		{"StopPodSandbox", func() error { return n.StopPodSandbox(ctx, "none") }, codes.OK},
		{"RemovePodSandbox", func() error { return n.RemovePodSandbox(ctx, "none") }, codes.OK},
		{"RemoveImage", func() error { return n.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: "none"}) }, codes.OK},
		{"ImageStatus", func() error {
			r, err := n.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "none"}, false)
			if err == nil && r.Image != nil {
				t.Error("an image that is not there has a status")
			}
			return err
		}, codes.OK},
		{"StartContainer", func() error { return n.StartContainer(ctx, "none") }, codes.NotFound},
		{"ContainerStatus", func() error { _, err := n.ContainerStatus(ctx, "none", false); return err }, codes.NotFound},
		{"PodSandboxStatus", func() error { _, err := n.PodSandboxStatus(ctx, "none", false); return err }, codes.NotFound},
		{"ReopenContainerLog", func() error { return n.ReopenContainerLog(ctx, "none") }, codes.NotFound},
		{"ExecSync", func() error { _, _, err := n.ExecSync(ctx, "none", nil, 0); return err }, codes.NotFound},
		{"UpdateContainerResources", func() error { return n.UpdateContainerResources(ctx, "none", nil) }, codes.NotFound},
		{"UpdatePodSandboxResources", func() error {
			_, err := n.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: "none"})
			return err
		}, codes.NotFound},
		{"ContainerStats", func() error { _, err := n.ContainerStats(ctx, "none"); return err }, codes.NotFound},
		{"PodSandboxStats", func() error { _, err := n.PodSandboxStats(ctx, "none"); return err }, codes.NotFound},
		{"CreateContainer without sandbox", func() error {
			_, err := n.CreateContainer(ctx, "none", containerConfig("a"), nil)
			return err
		}, codes.NotFound},
		{"CreateContainer without image", func() error {
			_, err := n.CreateContainer(ctx, sandbox, containerConfig("a"), nil)
			return err
		}, codes.NotFound},
		{"CreateContainer without name", func() error { _, err := n.CreateContainer(ctx, sandbox, nil, nil); return err }, codes.InvalidArgument},
		{"Exec", func() error { _, err := n.Exec(ctx, nil); return err }, codes.Unimplemented},
		{"Attach", func() error { _, err := n.Attach(ctx, nil); return err }, codes.Unimplemented},
		{"PortForward", func() error { _, err := n.PortForward(ctx, nil); return err }, codes.Unimplemented},
		{"CheckpointContainer", func() error { return n.CheckpointContainer(ctx, nil) }, codes.Unimplemented},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call()
			if got := status.Code(err); got != tt.want {
				t.Fatalf("code %s (%v), want %s", got, err, tt.want)
			}
			if crierrors.IsNotFound(err) != (tt.want == codes.NotFound) {
				t.Errorf("IsNotFound is wrong for %v", err)
			}
		})
	}
	if left := n.Leftovers(); len(left) != 2 { // the sandbox and its address
		t.Errorf("failed calls left something: %q", left)
	}
}
