package cni_test

import (
	"context"
	"fmt"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/podsync"
)

// A pod waits for its network; one on the host's network does not.
func Example() {
	stage := cni.Ready(&cni.FromRuntime{Runtime: &fakeRuntime{answer: network(false)}})
	for _, hostNetwork := range []bool{true, false} {
		s := podsync.NewSync(pod("web", hostNetwork))
		fmt.Println(stage.Run(context.Background(), s))
	}
	// Output:
	// Skip(HostNetwork)
	// Wait(NetworkNotReady): network is not ready: NetworkPluginNotReady: cni plugin not initialized
}
