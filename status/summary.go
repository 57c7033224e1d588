package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

// Summary words a pod's status as the columns of `kubectl get pods` do: the
// ready containers of all ("1/2", sidecars counted), the word in the STATUS
// column (Pending, Init:0/1, ErrImagePull, CrashLoopBackOff, Running, Completed,
// Terminating, …) and how often containers were restarted. It reads pod.Spec,
// pod.Status and pod.DeletionTimestamp; use a copy of the pod with the status to
// be shown.
func Summary(pod *corev1.Pod) (ready, word string, restarts int) {
	w := wording{pod: pod, word: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		w.word = pod.Status.Reason
	}
	if w.word == "" {
		w.word = string(corev1.PodPending)
	}
	w.count()
	initialising := w.init()
	if c := condition(pod.Status.Conditions, corev1.PodInitialized); !initialising || c != nil && c.Status == corev1.ConditionTrue {
		w.regular()
	}
	if pod.DeletionTimestamp != nil && !Terminal(pod.Status.Phase) {
		w.word = "Terminating"
	}
	return fmt.Sprintf("%d/%d", w.ready, w.total), w.word, w.restarts
}

// wording is a Summary in the making.
type wording struct {
	pod             *corev1.Pod
	word            string
	ready, total    int
	restarts        int
	sidecarRestarts int
}

// count takes the containers that stay.
func (w *wording) count() {
	w.total = len(w.pod.Spec.Containers)
	for i := range w.pod.Spec.InitContainers {
		if podspec.IsSidecar(&w.pod.Spec.InitContainers[i]) {
			w.total++
		}
	}
}

// init words the first init container that holds the pod up, and tells whether
// there is one.
func (w *wording) init() bool {
	for i := range w.pod.Spec.InitContainers {
		c := &w.pod.Spec.InitContainers[i]
		st := containerStatus(w.pod.Status.InitContainerStatuses, c.Name)
		if st == nil {
			st = &corev1.ContainerStatus{}
		}
		w.restarts += int(st.RestartCount)
		sidecar := podspec.IsSidecar(c)
		if sidecar {
			w.sidecarRestarts += int(st.RestartCount)
			if st.Ready {
				w.ready++
			}
		}
		switch {
		case sidecar && st.Started != nil && *st.Started:
			continue
		case !sidecar && st.State.Terminated != nil && st.State.Terminated.ExitCode == 0:
			continue
		case st.State.Terminated != nil:
			w.word = "Init:" + ending(st.State.Terminated)
		case st.State.Waiting != nil && st.State.Waiting.Reason != "" && st.State.Waiting.Reason != reasonPodInitializing:
			w.word = "Init:" + st.State.Waiting.Reason
		case Terminal(w.pod.Status.Phase):
			// It will not initialise any more; the phase says it.
		case len(w.pod.Status.InitContainerStatuses) == 0:
		default:
			w.word = fmt.Sprintf("Init:%d/%d", i, len(w.pod.Spec.InitContainers))
		}
		return true
	}
	return false
}

// regular words the regular containers. The first of the spec that has
// something to say has the last word; the restarts of plain init containers are
// history by now.
func (w *wording) regular() {
	w.restarts = w.sidecarRestarts
	running := false
	for i := len(w.pod.Spec.Containers) - 1; i >= 0; i-- {
		st := containerStatus(w.pod.Status.ContainerStatuses, w.pod.Spec.Containers[i].Name)
		if st == nil {
			continue
		}
		w.restarts += int(st.RestartCount)
		switch {
		case st.State.Waiting != nil && st.State.Waiting.Reason != "":
			w.word = st.State.Waiting.Reason
		case st.State.Terminated != nil:
			w.word = ending(st.State.Terminated)
		case st.State.Running != nil && st.Ready:
			running = true
			w.ready++
		}
	}
	if w.word == reasonCompleted && running {
		w.word = "NotReady"
		if c := condition(w.pod.Status.Conditions, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
			w.word = string(corev1.PodRunning)
		}
	}
}

func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}
