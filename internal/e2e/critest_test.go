package e2e_test

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/critest"
	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/internal/realruntime"
	"github.com/podsync/sdk/internal/realruntime/runtimetest"
)

// A real containerd does what the SDK relies on, and what the runtime in memory
// does as well. It is not parallel, so that it runs before the rigs are there.
func TestRuntimeContract(t *testing.T) {
	node := runtimetest.Start(t, realruntime.Config{})
	r, err := remote.Dial(t.Context(), remote.Options{Endpoint: node.Endpoint(), Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.WithoutCancel(t.Context())) })
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	b := critest.Backend{
		Runtime: r.Runtime(), Images: r.Images(),
		Image: node.Registry.Image("busybox:1"), NoImage: node.Registry.Image("nobody/has:this"),
		Run:      sh("trap 'exit 0' TERM; sleep 3600 & wait"),
		Exit:     func(code int) []string { return sh("exit " + strconv.Itoa(code)) },
		Stubborn: sh("trap '' TERM; while :; do sleep 1; done"),
		Settle:   500 * time.Millisecond,
		Print:    func(line string) []string { return []string{"echo", line} },
		Exec: &critest.ExecCommands{
			Print: sh("printf out; printf err >&2"), Fail: sh("exit 3"), Sleep: []string{"sleep", "10"},
		},
		Sandbox: func(c *runtimeapi.PodSandboxConfig) {
			c.Linux.CgroupParent = filepath.Join(node.CgroupRoot(), c.Metadata.Uid)
		},
	}
	critest.Runtime(t, func(*testing.T) critest.Backend { return b })
}
