package status

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
)

// Input is all that a pod's status is made of. Nothing in it is changed.
type Input struct {
	// Pod is the pod as its source wants it. Its own Status is used for what
	// others than the agent decide (conditions of other owners, resource claims)
	// and, where Previous is nil, as the status said last.
	Pod *corev1.Pod
	// Runtime is what the runtime holds of the pod. One that was never observed
	// (nil, or empty with a zero ObservedAt) tells nothing: the containers' states
	// stay as Previous has them.
	Runtime *podsync.RuntimePod
	// Previous is the status said last, nil if there was none.
	Previous *corev1.PodStatus
	// Now is the time for what changes: transitions and the start time.
	Now metav1.Time

	// Terminating: the pod is being stopped, no container will be restarted.
	Terminating bool
	// Terminal: the pod is stopped, nothing of it runs or will run again. Only
	// then does the status become terminal.
	Terminal bool
	// Termination says why the pod is stopped, and may set its final phase.
	Termination podsync.Termination
	// Static: the pod comes from a file or an HTTP source. As with the kubelet,
	// the final phase of such a pod is not forced to be terminal when it is
	// stopped while it could have gone on: it may be replaced under its name.
	Static bool

	// Resize is what became of the resources that the pod's source asks for; Pod
	// has those that it was given.
	Resize podsync.Resize
	// Waiting is what the pod's last run ended with, when it waits.
	Waiting Waiting
	// Probed: a prober fills Runtime.Probes, and a container with such a probe is
	// not ready (or started) until it says so. Without, a running container is.
	Probed bool
	// HostIPs are the node's addresses, primary first.
	HostIPs []string
	// RuntimeName is the scheme of container ids, "containerd" for one; "cri" if empty.
	RuntimeName string
}

// Waiting is what a pod as a whole waits for.
type Waiting struct {
	// Reason is an UpperCamelCase API reason; empty where the cause has none.
	Reason string
	// Message is for people.
	Message string
	// Stage is the stage that said so.
	Stage string
}

func (w Waiting) zero() bool { return w == Waiting{} }

// previous returns the status to go on from.
func (in *Input) previous() *corev1.PodStatus {
	if in.Previous != nil {
		return in.Previous
	}
	return &in.Pod.Status
}

// observed tells whether the runtime was ever asked about the pod.
func (in *Input) observed() bool {
	r := in.Runtime
	return r != nil && (!r.ObservedAt.IsZero() || len(r.Containers) > 0 || len(r.Sandboxes) > 0)
}

// stopping tells whether no container will be restarted any more.
func (in *Input) stopping() bool {
	return in.Terminating || in.Terminal || in.Pod.DeletionTimestamp != nil
}

// Terminal tells whether a phase is the last one: Succeeded or Failed.
func Terminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// ConfigSourceAnnotation says which source a pod came from, as with the kubelet.
const ConfigSourceAnnotation = "kubernetes.io/config.source"

// IsStatic tells whether the pod comes from a source that is not an API server:
// its ConfigSourceAnnotation is set and is not "api".
func IsStatic(pod *corev1.Pod) bool {
	s := pod.Annotations[ConfigSourceAnnotation]
	return s != "" && s != "api"
}
