// Package plan decides what a pod needs from the container runtime. Compute
// compares the pod with what the runtime holds of it and says which containers
// to kill, to remove and to start, and whether the sandbox has to be replaced;
// StopOrder says which containers wait for which when the pod is stopped.
//
// Both are pure: no clock, no I/O, equal input gives equal output, and the
// order of the answer never depends on a map. A plan is one step. After it was
// carried out, in part or in whole, Compute is asked again with what the
// runtime holds then; that is also how a crash between any two actions is
// survived. When there is nothing to do Compute allocates nothing.
//
// The decisions are those of the kubelet 1.37 with these differences:
//
//   - init containers are judged by the current sandbox alone, so that nothing
//     has to be removed first when a sandbox is replaced;
//   - of several running instances of one container all but one are killed, and
//     so are containers that run in another sandbox or that the pod does not name;
//   - an instance that was created and never started is removed before the next
//     one is made: its start may have been lost, not refused. An ephemeral
//     container in that state is started again, too;
//   - containers that were only created do not count as having run under
//     restartPolicy Never.
package plan
