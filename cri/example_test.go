package cri_test

import (
	"context"
	"fmt"
	"os"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// A pod is started by the runtime stage alone, with no agent and none of the
// other stages, on the runtime inside the process.
func Example() {
	logs, err := os.MkdirTemp("", "podsync-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(logs)
	mem := memory.New(memory.Options{})
	defer mem.Shutdown()
	rt, err := cri.New(cri.Options{
		Runtime: mem,
		Images:  mem,
		Node:    func() config.Node { return config.Node{Name: "edge-1", LogsRoot: logs} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	s := podsync.NewSync(podsynctest.Pod())

	out := rt.Sync().Run(ctx, s)
	did, _ := podsync.RuntimeActions.Get(s)
	fmt.Println(out, "sandbox:", did.SandboxCreated, "started:", did.Started)

	pod, err := rt.Monitor().Observe(ctx, s.UID())
	fmt.Println(pod.Container("app").State, err)

	fmt.Println(rt.StopContainers().Run(ctx, s), rt.VerifyStopped().Run(ctx, s))
	fmt.Println(rt.Cleaner().Remove(ctx, s.UID()), mem.Leftovers())
	// Output:
	// Continue sandbox: true started: [app]
	// running <nil>
	// Continue Continue
	// <nil> []
}
