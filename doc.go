// Package sdk is the map of the module; it has no code.
//
// podsync is the kubelet's pod-sync path as a library: each step from admission
// to running containers is a Stage in a Pipeline, with backends that can be
// replaced. Start with these packages:
//
//	podsync              Stage, Outcome, Pipeline, Sync, Agent: the core
//	podsync/node         the standard parts, put together
//	podsync/node/cluster the node as one of an API server;
//	                     podsync/node/kubeletapi serves logs, exec and so on
//	podsync/admit        admission stages
//	podsync/source       where pods come from: a directory, HTTP, memory
//	podsync/objects      config maps and secrets from a directory or memory
//	podsync/store        what outlives the process
//	podsync/podspec      defaults and validity of pods
//	podsync/podsynctest  the test kit
//	podsync/tracing      OpenTelemetry spans; podsync/metrics: Prometheus
//	cri                  runtime sync over CRI; cri/probe runs probes, cri/remote dials a server,
//	                     cri/memory is a runtime inside the process
//	cni                  network-ready check
//	cgroups              pod cgroups, v1 and v2
//	volumes              pod directories and volumes
//	status               phase, conditions, container states; manager and sinks
//	examples             programs of a few dozen lines, each tested
package sdk
