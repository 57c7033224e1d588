// Package cgroups gives pods their cgroups: the tier of their QoS class, and
// below it a cgroup per pod that bounds all its containers together.
//
// The pure part knows names ([Name]) and values ([Values.ForPod]); a [Manager]
// brings them about. [New] makes the real one for cgroup v1, v2 and hybrid
// hosts with the cgroupfs or the systemd driver, [NewDir] one that writes plain
// files below a directory, and [Noop] does nothing. [Ensure], [Remove] and
// [Cleaner] are the stages and the housekeeping made of a Manager:
//
//	m, err := cgroups.New(cgroups.Options{CgroupRoot: "/edge"})
//	...
//	sync.Append(cgroups.Ensure(m))
//	terminated.Append(cgroups.Remove(m))
//
// The tree is the kubelet's, so that either can take a node over from the other:
//
//	/kubepods/pod<uid>                Guaranteed pods
//	/kubepods/burstable/pod<uid>      Burstable pods
//	/kubepods/besteffort/pod<uid>     BestEffort pods
//
// Where it differs from the kubelet: a value that cannot be written is an error
// of that pod and not a line in a log; an existing cgroup is compared with what
// it should hold and repaired; a UID that cannot be a cgroup's name is an error
// and not a panic; a missing controller is named; a cgroup that vanished while
// containers run is made again, with a warning, and the pod is not killed for
// it (its processes are elsewhere by then and the runtime moves the next
// container into the new one).
package cgroups
