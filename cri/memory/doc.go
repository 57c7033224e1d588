// Package memory is a CRI v1 runtime inside the process: sandboxes, containers, images, logs and the
// event stream, with the behaviour (and the error codes) of containerd 2.x, but no processes. It runs the
// whole agent in unit tests, and on machines that have no container runtime.
//
//	rt := memory.New(memory.Options{Rules: []memory.Rule{memory.Exits("init", 0)}})
//	defer rt.Shutdown()
//	id, err := rt.RunPodSandbox(ctx, config, "")
//
// A [Runtime] implements both k8s.io/cri-api's RuntimeService and ImageManagerService. [Serve] puts it on a
// unix socket, where crictl and every CRI client can use it.
//
// # Containers
//
// What a container does is a [Behaviour], chosen by [Rule]s and the Script of the [Options]. With neither, a
// container runs until it is stopped, and ends at once with exit code 143 when the stop signal arrives, as a
// program with the default disposition does when it is not process 1. (A bare "sleep" as process 1 ignores
// SIGTERM: that is IgnoreTERM, which costs the whole grace period and ends with 137.) SIGKILL ends a
// container at once with 137. [Commands] is a rule for ordinary manifests: it guesses the behaviour from the
// container's command.
//
// # Time
//
// Everything that takes time waits on the clock of the Options, with timers and never by polling: the real
// clock, the fake clock of k8s.io/utils/clock/testing, and the bubbles of testing/synctest all work. Every
// call first applies what has come due, so that after a step of a fake clock the next call sees its effects;
// a container's finish time is the time its exit was due. Creation times are unique and increase, by
// nanoseconds while the clock stands still; start and finish times are the clock's own.
//
// # Faults
//
// An [Intercept] sees every call before it is made and answers with a [Fault]: latency, an error, a reply
// that is lost after the work was done, a hang. [Runtime.PowerCut], [Runtime.Down], [Runtime.Reboot],
// [Runtime.SetUnknown] and [Runtime.Forget] are the larger accidents. [Runtime.Calls] tells what was called.
//
// The state lives in the Runtime, not in its clients: it outlives the agent that made it, so that a test can
// start a second agent on it. Close, the method of the CRI interfaces, only hangs up.
package memory
