package remote_test

import (
	"context"
	"fmt"

	"github.com/podsync/sdk/cri/remote"
)

// Where no runtime is, the error says where it was looked for.
func ExampleDial() {
	ctx := context.Background()
	r, err := remote.Dial(ctx, remote.Options{Candidates: []string{"unix:///run/none.sock"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close(ctx)
	// Output: no container runtime found at unix:///run/none.sock; start one or name its endpoint
}
