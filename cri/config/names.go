package config

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Labels and annotations that the kubelet puts on sandboxes and containers in
// the runtime. They are what makes an agent stateless: all that is needed to
// recognise, compare and stop a container is read back from them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationPorts                    = "io.kubernetes.container.ports"
	AnnotationDeletionGracePeriod      = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationTerminationGracePeriod   = "io.kubernetes.pod.terminationGracePeriod"
)

// ReasonConfig is the reason of errors that say that a container cannot be
// configured as its spec wants it.
const ReasonConfig = "CreateContainerConfigError"

// Hash returns the kubelet's hash of a container: of its name and image alone,
// so that only an image change restarts a running container.
func Hash(c *corev1.Container) uint64 {
	// A struct in the order in which the kubelet's map is written, image first.
	raw, err := json.Marshal(struct {
		Image string `json:"image"`
		Name  string `json:"name"`
	}{c.Image, c.Name})
	if err != nil { // two strings always marshal
		return 0
	}
	// The kubelet hashes a dump of the JSON's bytes, not the bytes.
	text := make([]byte, 0, len(raw)*4+16)
	text = append(text, "([]uint8)["...)
	for i, b := range raw {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendUint(text, uint64(b), 10)
	}
	text = append(text, ']')
	h := fnv.New32a()
	h.Write(text)
	return uint64(h.Sum32())
}

func podLabels(pod *corev1.Pod) map[string]string {
	m := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(m, pod.Labels)
	m[LabelPodName] = pod.Name
	m[LabelPodNamespace] = pod.Namespace
	m[LabelPodUID] = string(pod.UID)
	return m
}

func podAnnotations(pod *corev1.Pod, extra []podsync.ExtraAnnotation) map[string]string {
	m := make(map[string]string, len(pod.Annotations)+len(extra))
	for _, a := range extra {
		if a.Container == "" {
			m[a.Name] = a.Value
		}
	}
	maps.Copy(m, pod.Annotations)
	return m
}

func containerLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	return map[string]string{
		LabelPodName:       pod.Name,
		LabelPodNamespace:  pod.Namespace,
		LabelPodUID:        string(pod.UID),
		LabelContainerName: c.Name,
	}
}

func containerAnnotations(in *ContainerInput) (map[string]string, error) {
	pod, c := in.Pod, in.Container
	m := make(map[string]string, 8+len(in.Annotations))
	for _, a := range in.Annotations {
		if a.Container == c.Name {
			m[a.Name] = a.Value
		}
	}
	m[AnnotationHash] = strconv.FormatUint(Hash(c), 16)
	m[AnnotationRestartCount] = strconv.Itoa(in.RestartCount)
	m[AnnotationTerminationMessagePath] = c.TerminationMessagePath
	m[AnnotationTerminationMessagePolicy] = string(c.TerminationMessagePolicy)
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		m[AnnotationDeletionGracePeriod] = strconv.FormatInt(*g, 10)
	}
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		m[AnnotationTerminationGracePeriod] = strconv.FormatInt(*g, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if err := marshalInto(m, AnnotationPreStopHandler, c.Lifecycle.PreStop); err != nil {
			return nil, err
		}
	}
	if len(c.Ports) > 0 {
		if err := marshalInto(m, AnnotationPorts, c.Ports); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func marshalInto(m map[string]string, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return configErrorf("annotation %s: %w", key, err)
	}
	m[key] = string(raw)
	return nil
}
