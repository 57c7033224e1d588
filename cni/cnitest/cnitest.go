// Package cnitest holds what every cni.Checker must do, as tests, and a Fake.
package cnitest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cni"
	"github.com/podsync/sdk/podsync"
)

// patience is how long a Checker may take to notice a change.
const patience = 10 * time.Second

// Checker tests a Checker whose network can be turned on and off. create makes
// one that publishes on bus and whose network is off; set turns it on and off. A
// Checker with a method Run(context.Context) error is run.
func Checker(t *testing.T, create func(t *testing.T, bus *podsync.Bus) (c cni.Checker, set func(ready bool))) {
	t.Run("TellsWhyNot", func(t *testing.T) {
		c, _ := create(t, nil)
		run(t, c)
		ready, reason, message := c.Ready(t.Context())
		if ready || reason == "" || message == "" {
			t.Errorf("Ready with the network off: %v, %q, %q", ready, reason, message)
		}
	})
	t.Run("FollowsTheNetwork", func(t *testing.T) {
		bus := podsync.NewBus()
		woken := make(chan struct{}, 16)
		defer bus.Subscribe(func(topic podsync.Topic, _ []types.UID) {
			if topic == podsync.TopicNetworkReady {
				woken <- struct{}{}
			}
		})()
		c, set := create(t, bus)
		run(t, c)
		for range 2 {
			becomes(t, c, false)
			set(true)
			becomes(t, c, true)
			select {
			case <-woken:
			case <-time.After(patience):
				t.Fatalf("nobody was told that the network is ready, %v after it was", patience)
			}
			if ready, reason, message := c.Ready(t.Context()); !ready || reason != "" || message != "" {
				t.Errorf("Ready with the network on: %v, %q, %q", ready, reason, message)
			}
			set(false)
		}
		becomes(t, c, false)
		if len(woken) > 0 {
			t.Error("told more than once per change")
		}
	})
	t.Run("AnswersWithoutWaiting", func(t *testing.T) {
		c, _ := create(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { c.Ready(ctx) })
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("Ready blocks although its context has ended")
		}
	})
}

// run runs the checker for the length of the test, if it can be run.
func run(t *testing.T, c cni.Checker) {
	t.Helper()
	r, ok := c.(interface{ Run(context.Context) error })
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not end with its context")
		}
	})
}

func becomes(t *testing.T, c cni.Checker, want bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ready, reason, message := c.Ready(t.Context())
		if ready == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Ready is still %v (%s: %s), %v after the change", ready, reason, message, patience)
		}
	}
}
