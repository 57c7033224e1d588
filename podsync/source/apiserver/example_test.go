package apiserver_test

import (
	"context"
	"fmt"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/source/apiserver"
)

// The source and the mirrors of static pods belong together; package
// podsync/node/cluster puts them into a node.
func Example() {
	mirrors := &apiserver.Mirrors{Node: "edge-1"}
	pods := &apiserver.Pods{Node: "edge-1", Mirrors: mirrors}

	plan := podsync.NewBuilder(podsync.PhaseSync).Append(mirrors.Stage())
	p, err := plan.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	out := p.Run(context.Background(), podsync.NewSync(podsynctest.Pod()))
	fmt.Println(pods.Name(), p, out.Kind())
	// Output: api sync: mirror Continue
}
