package status

import (
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is how many bytes the messages of all containers of a pod may have
// together, as with the kubelet, and each message of the pod itself.
const maxMessage = 12 << 10

// seconds cuts a time to the second, as RFC 3339 will write it.
func seconds(t metav1.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// clip cuts a text to at most n bytes, at the boundary of a character. What is
// not UTF-8 is replaced, as JSON could not carry it.
func clip(s string, n int) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// limitMessages cuts the containers' messages so that all together stay within
// maxMessage.
func limitMessages(s *corev1.PodStatus) {
	s.Message = clip(s.Message, maxMessage)
	lists := [...][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses}
	n := 0
	for _, l := range lists {
		n += len(l)
	}
	if n == 0 {
		return
	}
	limit := maxMessage / n
	for _, l := range lists {
		for i := range l {
			limitState(&l[i].State, limit)
			limitState(&l[i].LastTerminationState, limit)
		}
	}
}

func limitState(s *corev1.ContainerState, limit int) {
	if s.Terminated != nil {
		s.Terminated.Message = clip(s.Terminated.Message, limit)
		s.Terminated.Reason = clip(s.Terminated.Reason, limit)
	}
	if s.Waiting != nil {
		s.Waiting.Message = clip(s.Waiting.Message, limit)
		s.Waiting.Reason = clip(s.Waiting.Reason, limit)
	}
}
