// Package status says what a pod's status is and sees to it that it is known.
//
// It has two halves. The first is pure: [Compute] makes a corev1.PodStatus of
// what is wanted (the pod), what is (a podsync.RuntimePod), what was said last
// and what the pod waits for. It has no clock, no I/O and no map order, so equal
// input gives equal output. [Phase], [ContainerStatuses] and [Conditions] are its
// parts, [Summary] words a status as kubectl does.
//
// The second half does the telling: a [Manager] keeps the last status of each
// pod and writes it to a [Sink], the newest only, different pods side by side,
// and again until it worked. [Publish], [Stopping] and [Final] are the stages
// that feed it, and as a podsync.Reporter it learns what pods wait for.
//
//	m := status.New(status.Options{Sink: &status.FileSink{Dir: "/var/lib/agent/status"}})
//	go m.Run(ctx)
//	sync.Append(status.Publish(m)) // first in the sync phase
//	terminating.Append(status.Stopping(m)) // first in the terminating phase
//	terminating.Append(status.Final(m)) // after verify-stopped, and in terminated
//
// Two rules hold whatever the stages do: a terminal phase is never left, and
// none is published while a container of the pod can still run.
package status
