// Package remote connects to a container runtime that serves the Container
// Runtime Interface, version v1, on a unix socket: containerd, CRI-O,
// cri-dockerd. It is k8s.io/cri-client with the endpoint found, the version
// checked with an error that says what to do, and its log kept quiet.
//
//	r, err := remote.Dial(ctx, remote.Options{})
//	defer r.Close(ctx)
//	rt, err := cri.New(cri.Options{Runtime: r.Runtime(), Images: r.Images()})
package remote
