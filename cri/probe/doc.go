// Package probe runs the startup, liveness and readiness probes of containers:
// exec, httpGet, tcpSocket and grpc, by the kubelet's rules.
//
// A Manager has one timer for all probes of a node, so that an idle probe costs
// nothing but its place in a heap; a probe that runs has a goroutine for that
// time, and no more than Options.Workers run at once.
//
// A probe's verdict changes after failureThreshold or successThreshold equal
// results in a row. Verdicts are for one instance of a container: a new one
// begins anew, not ready, and its other probes wait for the startup probe. What
// the Manager decides is used by the planner (it is a plan.Probes: a liveness or
// startup probe that failed has its container killed) and by the status (by
// Options.Changed).
package probe
