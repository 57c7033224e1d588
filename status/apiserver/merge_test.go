package apiserver_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/status/apiserver"
)

func conditions(kv ...string) (out []corev1.PodCondition) {
	for i := 0; i < len(kv); i += 2 {
		out = append(out, corev1.PodCondition{Type: corev1.PodConditionType(kv[i]), Status: corev1.ConditionStatus(kv[i+1])})
	}
	return out
}

func TestMerge(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	claim := "claim"
	for _, tc := range []struct {
		name                string
		server, agent, want corev1.PodStatus
	}{
		{"STA-05: foreign conditions and claims stay",
			corev1.PodStatus{Conditions: conditions("example.com/gate", "True", "Ready", "False"), ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim}}},
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions("Ready", "True")},
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions("example.com/gate", "True", "Ready", "True"), ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim}}}},
		{"an old copy of a foreign condition does not come back",
			corev1.PodStatus{Conditions: conditions("example.com/gate", "False")},
			corev1.PodStatus{Conditions: conditions("example.com/gate", "True")},
			corev1.PodStatus{Conditions: conditions("example.com/gate", "False")}},
		{"the agent's conditions that are gone go",
			corev1.PodStatus{Conditions: conditions("PodResizePending", "True")}, corev1.PodStatus{}, corev1.PodStatus{}},
		{"a disruption that a controller announced stays",
			corev1.PodStatus{Conditions: conditions("DisruptionTarget", "True")},
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions("Ready", "True")},
			corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions("Ready", "True", "DisruptionTarget", "True")}},
		{"STA-02: a terminal phase is never left",
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "m"}, corev1.PodStatus{Phase: corev1.PodRunning},
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "m"}},
		{"the start time is said once",
			corev1.PodStatus{StartTime: &early}, corev1.PodStatus{StartTime: &late}, corev1.PodStatus{StartTime: &early}},
		{"the first start time",
			corev1.PodStatus{}, corev1.PodStatus{StartTime: &late}, corev1.PodStatus{StartTime: &late}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, agent := tc.server.DeepCopy(), tc.agent.DeepCopy()
			if d := cmp.Diff(&tc.want, apiserver.Merge(server, agent)); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(&tc.server, server) + cmp.Diff(&tc.agent, agent); d != "" {
				t.Errorf("an argument was changed: %s", d)
			}
		})
	}
}
