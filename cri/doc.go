// Package cri runs pods on a container runtime that speaks the Container
// Runtime Interface: it makes sandboxes and containers, restarts, stops and
// removes them, and watches what the runtime does by itself.
//
// A Runtime is made once per agent and gives the parts that an agent needs:
//
//	rt, err := cri.New(cri.Options{Runtime: service, Images: imageService, Node: node, Objects: objects})
//	plan.Sync.Append(rt.Sync(), podsync.Detached(), podsync.Timeout(time.Hour))
//	plan.Terminating.Append(rt.StopContainers()).Append(rt.VerifyStopped())
//	agent, err := podsync.New(podsync.Config{Plan: plan, Runtime: rt.Monitor(), Cleaners: []podsync.Cleaner{rt.Cleaner()}, …})
//
// What is to be done is decided by the pure package plan; this package carries
// it out. All state is read back from the runtime's labels and annotations, so
// that a restart of the agent loses nothing but the crash-loop backoff, which
// can be kept (see Runtime.Backoffs).
package cri
