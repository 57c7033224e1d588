package status

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

// Life says where in its life a pod is, as far as container statuses do not.
type Life struct {
	// Terminal: the pod is stopped; what has ended stays ended.
	Terminal bool
	// Static: the pod comes from a file or HTTP source; see Input.Static.
	Static bool
	// RegularStarted: a regular container was started in the newest sandbox.
	RegularStarted bool
}

// Phase computes a pod's phase from the statuses of its init and regular
// containers, by the kubelet's rules:
//
//   - Failed when an init container failed for good;
//   - Pending while an init container is unfinished, a sidecar that the regular
//     containers wait for has not started, or a container has not started yet;
//   - Running while a container or sidecar runs, or one will be restarted;
//   - Succeeded when all regular containers ended with exit code 0, Failed when
//     all ended and one did not. How sidecars end does not matter.
//
// A container that waits but has a last termination counts as ended: a
// crash-looping pod is Running. A container with no status makes a pod Pending.
// Only the container statuses of s are read.
func Phase(pod *corev1.Pod, s *corev1.PodStatus, l Life) corev1.PodPhase {
	var t tally
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		st := containerStatus(s.InitContainerStatuses, c.Name)
		if podspec.IsSidecar(c) {
			t.addSidecar(st)
		} else {
			t.addInit(pod, c, st)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		t.addRegular(pod, c, containerStatus(s.ContainerStatuses, c.Name))
	}
	return t.phase(l)
}

// tally counts a pod's containers by what they mean for its phase.
type tally struct {
	initPending, initFailed             int
	sidecarPending                      int
	waiting, running, unknown           int
	stopped, succeeded, stoppedRestarts int
}

func (t *tally) addInit(pod *corev1.Pod, c *corev1.Container, st *corev1.ContainerStatus) {
	if st == nil {
		t.initPending++
		return
	}
	end := st.State.Terminated
	if end == nil && st.State.Waiting != nil {
		end = st.LastTerminationState.Terminated
	}
	switch {
	case end == nil:
		t.initPending++
	case initSucceeded(end):
	case end.Reason == reasonRestartingAll || podspec.Restarts(pod, c, end.ExitCode):
	default:
		t.initFailed++
	}
}

func (t *tally) addSidecar(st *corev1.ContainerStatus) {
	switch {
	case st == nil:
		t.unknown++
	case st.State.Running != nil:
		t.running++
		if st.Started == nil || !*st.Started {
			t.sidecarPending++
		}
	case st.State.Terminated != nil || st.LastTerminationState.Terminated != nil:
		// One that ended is started again and holds nothing up.
	default:
		t.sidecarPending++
		t.waiting++
	}
}

func (t *tally) addRegular(pod *corev1.Pod, c *corev1.Container, st *corev1.ContainerStatus) {
	switch {
	case st == nil:
		t.unknown++
	case st.State.Running != nil:
		t.running++
	case st.State.Terminated != nil:
		if st.State.Terminated.ExitCode == 0 {
			t.succeeded++
		}
		t.addStopped(pod, c, st.State.Terminated)
	case st.LastTerminationState.Terminated != nil:
		t.addStopped(pod, c, st.LastTerminationState.Terminated)
	case st.State.Waiting != nil:
		t.waiting++
	default:
		t.unknown++
	}
}

func (t *tally) addStopped(pod *corev1.Pod, c *corev1.Container, end *corev1.ContainerStateTerminated) {
	t.stopped++
	if end.Reason == reasonRestartingAll || podspec.Restarts(pod, c, end.ExitCode) {
		t.stoppedRestarts++
	}
}

func (t *tally) phase(l Life) corev1.PodPhase {
	switch {
	case t.initFailed > 0:
		return corev1.PodFailed
	case t.initPending > 0, t.waiting > 0, t.sidecarPending > 0 && !l.RegularStarted:
		return corev1.PodPending
	case t.running > 0 && t.unknown == 0:
		return corev1.PodRunning
	case t.running == 0 && t.stopped > 0 && t.unknown == 0:
		// A static pod that is being replaced keeps a phase that is not terminal.
		if t.stoppedRestarts > 0 && (!l.Terminal || l.Static) {
			return corev1.PodRunning
		}
		if t.stopped == t.succeeded {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	default:
		return corev1.PodPending
	}
}

// initSucceeded tells whether a plain init container did its work. One whose
// processes were killed for want of memory did not, whatever its exit code.
func initSucceeded(t *corev1.ContainerStateTerminated) bool {
	return t.ExitCode == 0 && t.Reason != reasonOOMKilled
}

// containerStatus returns the status of that name, nil if there is none.
func containerStatus(l []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range l {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}
