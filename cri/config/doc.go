// Package config says what a CRI runtime is to be asked for: it builds the
// configurations of sandboxes and containers, their environment, mounts, DNS
// and security contexts from a pod, and it reads back what the runtime reports.
//
// Everything here is a decision, not an effect: equal input gives equal output,
// in a fixed order, with no clock and no runtime call. The few functions that
// touch the file system (WriteHostsFile, RestartCountFromLogs and the bounded
// reads of termination messages and logs) say so and are small.
//
// Names, labels, annotations, log paths and the container hash are those of the
// kubelet 1.37, so that an agent can take over a node from the kubelet and hand
// it back. Where the kubelet has a quirk that hurts (host ports of sidecars
// that are not mapped, namespaces lost with a nil securityContext, environment
// in random order) this package does the right thing instead; the doc comments
// say so.
//
// A typical start of a container:
//
//	env, err := config.Env(ctx, config.EnvInput{Pod: pod, Container: c, Node: node, Objects: objects, PodIPs: ips})
//	mounts, err := config.Mounts(ctx, config.MountsInput{Pod: pod, Container: c, Volumes: vols, Dirs: dirs, Env: env})
//	cfg, err := config.Container(config.ContainerInput{Pod: pod, Container: c, Node: node, Image: img, Env: env, Mounts: mounts})
//
// All functions are safe for concurrent use and keep no reference to a pod
// beyond what their result shares with it; neither may be changed afterwards.
package config
