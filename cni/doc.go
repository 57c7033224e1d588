// Package cni answers one question before a pod gets a sandbox: can the node
// give it a network?
//
// A [Checker] knows the answer: [FromRuntime] asks the container runtime, as the
// kubelet does, [FromDir] reads the CNI configuration itself, [AlwaysReady] is
// for nodes and tests without. [Ready] is the stage made of a Checker. Pods on
// the host's network never wait; the others wait without failing, and go on the
// moment the Checker publishes podsync.TopicNetworkReady:
//
//	network := &cni.FromRuntime{Runtime: runtimeService, Bus: bus}
//	go network.Run(ctx)
//	sync.Append(cni.Ready(network))
//
// Where it differs from the kubelet: an outage keeps new pods from starting, but
// a pod that has its sandbox and address already is synced as ever, so that its
// containers are restarted; and a network that comes back is noticed within a
// second and not within five.
package cni
