// Package runtimetest gives a test a private containerd and a registry to pull from, and fails the test when
// it leaves anything behind.
//
//	node := runtimetest.Start(t, realruntime.Config{}) // skips where there is no root, Linux or `make runtime`
//	client, err := remote.NewRemoteRuntimeService(t.Context(), node.Endpoint(), …)
//	image := node.Registry.Image("busybox:1")
package runtimetest

import (
	"context"
	"testing"

	"github.com/podsync/sdk/internal/realruntime"
)

// Node is a private containerd with a registry; both end with the test.
type Node struct {
	*realruntime.Containerd
	// Registry serves pause:3.10, busybox:1, private/busybox:1 and private/web:1.
	Registry *realruntime.Registry
}

// Start starts both, or skips the test with the reason why they cannot run here. At the end of the test, after
// the cleanups that were registered later, it stops them and fails the test for everything that is left: of
// the instance itself, and mounts below the temporary directories of the test that are named in dirs.
// SandboxImage is filled in. Tests may run in parallel; each Start costs about 0.1 s and each Stop 0.1 s.
func Start(tb testing.TB, c realruntime.Config, dirs ...string) *Node {
	tb.Helper()
	if why := realruntime.Missing(); why != "" {
		tb.Skip(why)
	}
	registry, err := realruntime.StartRegistry(tb.Context(), realruntime.RegistryConfig{BinDir: c.BinDir})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// The test's own context has ended by now.
		if err := registry.Stop(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	if c.SandboxImage == "" {
		c.SandboxImage = registry.Image("pause:3.10")
	}
	containerd, err := realruntime.Start(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	n := &Node{Containerd: containerd, Registry: registry}
	tb.Cleanup(func() { n.stop(tb, dirs) })
	return n
}

// stop stops containerd and reports what it left.
func (n *Node) stop(tb testing.TB, dirs []string) {
	if tb.Failed() {
		tb.Logf("the end of containerd's log:\n%s", n.Log())
	}
	if err := n.Stop(context.WithoutCancel(tb.Context())); err != nil {
		tb.Error(err)
	}
	leaks, err := n.Leaks(dirs...)
	if err != nil {
		tb.Error(err)
	}
	for _, l := range leaks {
		tb.Errorf("left behind: %s", l)
	}
}
