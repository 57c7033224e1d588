package podsynctest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// A scripted stage stands for one that waits once; a recorder tells what ran.
func Example() {
	var rec podsynctest.Recorder
	p, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script(podsync.StageNetwork, podsync.Wait(time.Second, "NetworkNotReady", "not yet"), podsync.Continue())).
		Append(podsynctest.Script(podsync.StageRuntime)).
		Observe(rec.Observe).
		Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := podsynctest.Pod(podsynctest.Named("till"), podsynctest.Sidecar(corev1.Container{Name: "proxy"}))
	for range 2 {
		p.Run(context.Background(), podsync.NewSync(pod))
	}
	fmt.Println(&rec)
	// Output: network=Wait(NetworkNotReady) network=Continue runtime=Continue
}

// The contract suite holds a stage of a site to what every stage owes.
func ExampleStage() {
	_ = func(t *testing.T) {
		podsynctest.Stage(t, podsynctest.StageCase{
			New: func(*testing.T) podsync.Stage {
				return podsync.NewStage("example.com/hello", func(context.Context, *podsync.Sync) podsync.Outcome { return podsync.Continue() })
			},
			Want: podsync.KindContinue,
		})
	}
}

// A whole agent on the in-memory runtime loses its power right after its third
// call that changes something; the next agent ends with the same pod.
func ExampleNode() {
	_ = func(t *testing.T) {
		n := podsynctest.NewNode(t, podsynctest.NodeOptions{Memory: memory.Options{Rules: []memory.Rule{memory.Exits("setup", 0)}}})
		pod := podsynctest.Pod(podsynctest.Init(corev1.Container{Name: "setup"}))
		n.Apply(pod)
		n.PowerCut(3, memory.After, func() bool { return podsynctest.Ready(n.Status(pod.UID)) })
		n.WaitRunning(pod.UID)
		n.Delete(pod.UID)
		n.WaitGone(pod.UID)
		if l := n.Runtime.Leftovers(); len(l) > 0 {
			t.Errorf("left in the runtime: %v", l)
		}
	}
}
