package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync"
)

// Identity says which pod, and which container of it, something in the runtime
// belongs to.
type Identity struct {
	// UID, Name and Namespace are the pod's.
	UID             types.UID
	Name, Namespace string
	// Container is "" for a sandbox.
	Container string
}

// IdentityError says that something in the runtime carries no usable identity:
// it is not a pod of ours, and nothing may be done to it in a pod's name.
type IdentityError struct {
	// Label is the label at fault, Value what it holds.
	Label, Value string
}

// Error names the label and its value.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("label %s: %q does not identify a pod", e.Label, e.Value)
}

// ParseIdentity reads the labels of a sandbox or container. What lacks a name,
// namespace or UID, or has one that could lead a path or a cgroup name astray,
// is not a pod of ours: an *IdentityError, and nothing to act on.
func ParseIdentity(labels map[string]string) (Identity, error) {
	id := Identity{
		UID:       types.UID(labels[LabelPodUID]),
		Name:      labels[LabelPodName],
		Namespace: labels[LabelPodNamespace],
		Container: labels[LabelContainerName],
	}
	switch {
	case !validUID(string(id.UID)):
		return Identity{}, &IdentityError{LabelPodUID, string(id.UID)}
	case !validName(id.Name, 253):
		return Identity{}, &IdentityError{LabelPodName, id.Name}
	case !validName(id.Namespace, 63):
		return Identity{}, &IdentityError{LabelPodNamespace, id.Namespace}
	case id.Container != "" && !validName(id.Container, 63):
		return Identity{}, &IdentityError{LabelContainerName, id.Container}
	}
	return id, nil
}

// validUID tells whether a UID can stand in a path and in a cgroup's name, also
// one of systemd, which cannot tell '_' from '-'.
func validUID(s string) bool {
	if s == "" || len(s) > 128 || !isAlnum(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// validName tells whether s looks like a DNS name of Kubernetes.
func validName(s string, limit int) bool {
	if s == "" || len(s) > limit || !isLower(s[0]) || !isLower(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isLower(c) && c != '-' && c != '.' {
			return false
		}
	}
	return !strings.Contains(s, "..")
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' }

// ParseContainer converts an item of a container list. It lacks what only a
// status has: times of start and end, exit code, mounts, log path.
func ParseContainer(c *runtimeapi.Container) (Identity, *podsync.RuntimeContainer, error) {
	id, err := containerIdentity(c.GetId(), c.GetLabels())
	if err != nil {
		return Identity{}, nil, err
	}
	out := &podsync.RuntimeContainer{
		ID:          c.GetId(),
		Name:        id.Container,
		Attempt:     c.GetMetadata().GetAttempt(),
		SandboxID:   c.GetPodSandboxId(),
		State:       containerState(c.GetState()),
		CreatedAt:   nanoTime(c.GetCreatedAt()),
		Image:       c.GetImage().GetImage(),
		ImageRef:    c.GetImageRef(),
		Labels:      c.GetLabels(),
		Annotations: c.GetAnnotations(),
	}
	readAnnotations(out)
	return id, out, nil
}

// ParseContainerStatus converts a container's status. sandboxID comes from the
// list, since a status does not have it. Annotations that are missing or
// unreadable leave their fields at zero; only the labels must be there.
func ParseContainerStatus(sandboxID string, s *runtimeapi.ContainerStatus) (Identity, *podsync.RuntimeContainer, error) {
	id, err := containerIdentity(s.GetId(), s.GetLabels())
	if err != nil {
		return Identity{}, nil, err
	}
	out := &podsync.RuntimeContainer{
		ID:          s.GetId(),
		Name:        id.Container,
		Attempt:     s.GetMetadata().GetAttempt(),
		SandboxID:   sandboxID,
		State:       containerState(s.GetState()),
		CreatedAt:   nanoTime(s.GetCreatedAt()),
		Image:       s.GetImage().GetImage(),
		ImageRef:    s.GetImageRef(),
		Labels:      s.GetLabels(),
		Annotations: s.GetAnnotations(),
		Resources:   reportedResources(s.GetResources()),
		User:        containerUser(s.GetUser()),
		LogPath:     s.GetLogPath(),
		Mounts:      containerMounts(s.GetMounts()),
	}
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED {
		out.StartedAt = nanoTime(s.GetStartedAt())
	}
	if s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
		out.FinishedAt = nanoTime(s.GetFinishedAt())
		out.ExitCode = s.GetExitCode()
	}
	out.Reason, out.Message = s.GetReason(), s.GetMessage()
	readAnnotations(out)
	return id, out, nil
}

func containerIdentity(containerID string, labels map[string]string) (Identity, error) {
	id, err := ParseIdentity(labels)
	if err == nil && id.Container == "" {
		err = &IdentityError{LabelContainerName, ""}
	}
	if err != nil {
		return Identity{}, fmt.Errorf("container %q: %w", containerID, err)
	}
	return id, nil
}

// readAnnotations fills in what the annotations say of the instance. The
// restart count falls back to the attempt.
func readAnnotations(c *podsync.RuntimeContainer) {
	c.RestartCount = int(c.Attempt)
	if n, err := strconv.ParseInt(c.Annotations[AnnotationRestartCount], 10, 32); err == nil && n >= 0 {
		c.RestartCount = int(n)
	}
	// A hash of zero counts as none, as the kubelet has it.
	if h, err := strconv.ParseUint(c.Annotations[AnnotationHash], 16, 64); err == nil && h != 0 {
		c.Hash, c.HashKnown = h, true
	}
}

// nanoTime turns CRI's nanoseconds into a time; zero and what is before 1970,
// as some runtimes report for "never", is the zero time.
func nanoTime(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// NewRuntimePod puts together what the runtime holds of one pod: it sorts
// sandboxes and containers newest first (ties by id, so that the order does not
// depend on the input's) and takes the addresses of the newest ready sandbox.
// Invalid addresses are dropped. The slices are not changed.
func NewRuntimePod(id Identity, sandboxes []*podsync.RuntimeSandbox, containers []*podsync.RuntimeContainer, at time.Time) *podsync.RuntimePod {
	p := &podsync.RuntimePod{
		UID: id.UID, Name: id.Name, Namespace: id.Namespace, ObservedAt: at,
		Sandboxes: slices.Clone(sandboxes), Containers: slices.Clone(containers),
	}
	slices.SortFunc(p.Sandboxes, func(a, b *podsync.RuntimeSandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(p.Containers, func(a, b *podsync.RuntimeContainer) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range p.Sandboxes {
		if s.Ready {
			p.IPs = s.IPs
			break
		}
	}
	return p
}

func sandboxIPs(s *runtimeapi.PodSandboxStatus) []string {
	var list []string
	add := func(ip string) {
		if a, err := netip.ParseAddr(ip); err == nil {
			list = append(list, a.String())
		}
	}
	add(s.GetNetwork().GetIp())
	for _, ip := range s.GetNetwork().GetAdditionalIps() {
		add(ip.GetIp())
	}
	return list
}

// ParseSandbox reads an item of a sandbox list, which says nothing of the network.
func ParseSandbox(s *runtimeapi.PodSandbox) *podsync.RuntimeSandbox {
	return &podsync.RuntimeSandbox{
		ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: nanoTime(s.GetCreatedAt()), Labels: s.GetLabels(), Annotations: s.GetAnnotations(), Handler: s.GetRuntimeHandler(),
	}
}

// ParseSandboxStatus reads a sandbox's status. Invalid addresses are dropped.
func ParseSandboxStatus(s *runtimeapi.PodSandboxStatus) *podsync.RuntimeSandbox {
	return &podsync.RuntimeSandbox{
		ID: s.GetId(), Attempt: s.GetMetadata().GetAttempt(), Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: nanoTime(s.GetCreatedAt()), Labels: s.GetLabels(), Annotations: s.GetAnnotations(), Handler: s.GetRuntimeHandler(),
		HostNetwork:  s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		NetworkKnown: s.GetNetwork() != nil, IPs: sandboxIPs(s),
	}
}

// containerState translates CRI's state; one that is not known is unknown.
func containerState(s runtimeapi.ContainerState) podsync.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return podsync.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return podsync.ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return podsync.ContainerExited
	default:
		return podsync.ContainerUnknown
	}
}

func reportedResources(r *runtimeapi.ContainerResources) *podsync.RuntimeResources {
	l := r.GetLinux()
	if l == nil {
		return nil
	}
	return &podsync.RuntimeResources{CPUShares: l.GetCpuShares(), CPUQuota: l.GetCpuQuota(), CPUPeriod: l.GetCpuPeriod(), MemoryLimit: l.GetMemoryLimitInBytes()}
}

func containerUser(u *runtimeapi.ContainerUser) *podsync.RuntimeUser {
	l := u.GetLinux()
	if l == nil {
		return nil
	}
	return &podsync.RuntimeUser{UID: l.GetUid(), GID: l.GetGid(), SupplementalGroups: l.GetSupplementalGroups()}
}

func containerMounts(ms []*runtimeapi.Mount) []podsync.RuntimeMount {
	if len(ms) == 0 {
		return nil
	}
	out := make([]podsync.RuntimeMount, len(ms))
	for i, m := range ms {
		out[i] = podsync.RuntimeMount{ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), ReadOnly: m.GetReadonly(), RecursiveReadOnly: m.GetRecursiveReadOnly()}
	}
	return out
}

// RebuildPod makes, of what the runtime holds, a pod that is good enough to be
// stopped: names, graces, containers with ports and preStop hooks, from labels
// and annotations. It is for pods that no source knows any more. All containers
// become regular ones, for the runtime does not say which were not. Unreadable
// annotations are left out. nil for a nil p.
func RebuildPod(p *podsync.RuntimePod) *corev1.Pod {
	if p == nil {
		return nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Name: p.Name, Namespace: p.Namespace}}
	if len(p.Sandboxes) > 0 {
		s := p.Sandboxes[0]
		pod.Labels, pod.Annotations = withoutKubelet(s.Labels), withoutKubelet(s.Annotations)
		pod.Spec.HostNetwork = s.HostNetwork
	}
	seen := map[string]bool{}
	for _, c := range p.Containers { // newest first
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		pod.Spec.Containers = append(pod.Spec.Containers, rebuildContainer(c))
		if pod.DeletionGracePeriodSeconds == nil {
			pod.DeletionGracePeriodSeconds = seconds(c.Annotations[AnnotationDeletionGracePeriod])
		}
		if pod.Spec.TerminationGracePeriodSeconds == nil {
			pod.Spec.TerminationGracePeriodSeconds = seconds(c.Annotations[AnnotationTerminationGracePeriod])
		}
	}
	slices.SortFunc(pod.Spec.Containers, func(a, b corev1.Container) int { return cmp.Compare(a.Name, b.Name) })
	return pod
}

func rebuildContainer(c *podsync.RuntimeContainer) corev1.Container {
	out := corev1.Container{
		Name:                     c.Name,
		Image:                    c.Image,
		TerminationMessagePath:   c.Annotations[AnnotationTerminationMessagePath],
		TerminationMessagePolicy: corev1.TerminationMessagePolicy(c.Annotations[AnnotationTerminationMessagePolicy]),
	}
	var hook corev1.LifecycleHandler
	if raw := c.Annotations[AnnotationPreStopHandler]; raw != "" && json.Unmarshal([]byte(raw), &hook) == nil {
		out.Lifecycle = &corev1.Lifecycle{PreStop: &hook}
	}
	var ports []corev1.ContainerPort
	if raw := c.Annotations[AnnotationPorts]; raw != "" && json.Unmarshal([]byte(raw), &ports) == nil {
		out.Ports = ports
	}
	return out
}

// seconds reads a grace period; a negative one is none.
func seconds(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// withoutKubelet leaves the pod's own labels.
func withoutKubelet(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		switch k {
		case LabelPodName, LabelPodNamespace, LabelPodUID, LabelContainerName:
			continue
		}
		if out == nil {
			out = make(map[string]string, len(m))
		}
		out[k] = v
	}
	return out
}
