package cnitest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/cni/cnitest"
	"github.com/podsync/sdk/podsync"
)

func TestFake(t *testing.T) {
	cnitest.Checker(t, func(_ *testing.T, bus *podsync.Bus) (cni.Checker, func(bool)) {
		var on atomic.Bool
		f := &cnitest.Fake{ReadyFunc: func(context.Context) (ready bool, reason, message string) {
			if on.Load() {
				return true, "", ""
			}
			return false, cni.ReasonNoConfig, "no network"
		}}
		return f, func(ready bool) {
			if !on.Swap(ready) && ready {
				bus.Publish(podsync.TopicNetworkReady)
			}
		}
	})
}

func ExampleFake() {
	f := &cnitest.Fake{}
	ready, _, _ := f.Ready(context.Background())
	fmt.Println(ready)
	f.ReadyFunc = func(context.Context) (ready bool, reason, message string) {
		return false, cni.ReasonNoPlugin, "plugin bridge is missing"
	}
	fmt.Println(f.Ready(context.Background()))
	// Output:
	// true
	// false NetworkPluginMissing plugin bridge is missing
}
