package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync/node/cluster"
)

func TestNextNode(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	cond := func(typ corev1.NodeConditionType, s corev1.ConditionStatus, heartbeat, transition metav1.Time) corev1.NodeCondition {
		return corev1.NodeCondition{Type: typ, Status: s, LastHeartbeatTime: heartbeat, LastTransitionTime: transition}
	}
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"ours": "new"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "at-start"}}}}
	want.Status.Conditions = []corev1.NodeCondition{cond("Ready", "True", metav1.Time{}, metav1.Time{}), cond("DiskPressure", "True", metav1.Time{}, metav1.Time{})}

	created := cluster.NextNode(nil, want, now)
	if d := cmp.Diff(want.Spec.Taints, created.Spec.Taints); d != "" || created.Status.Conditions[0].LastTransitionTime != now {
		t.Errorf("a new node: %+v", created)
	}

	have := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "7", Labels: map[string]string{"ours": "old", "theirs": "x"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs"}}}}
	have.Status.Conditions = []corev1.NodeCondition{cond("Ready", "True", before, before), cond("DiskPressure", "False", before, before), cond("NetworkUnavailable", "False", before, before)}
	next := cluster.NextNode(have, want, now)
	if d := cmp.Diff(map[string]string{"ours": "new", "theirs": "x"}, next.Labels); d != "" {
		t.Errorf("labels: %s", d)
	}
	if d := cmp.Diff(have.Spec, next.Spec); d != "" {
		t.Errorf("the spec is not the agent's after registration: %s", d)
	}
	if d := cmp.Diff([]corev1.NodeCondition{
		cond("Ready", "True", now, before), cond("DiskPressure", "True", now, now), cond("NetworkUnavailable", "False", before, before),
	}, next.Status.Conditions); d != "" {
		t.Errorf("conditions: %s", d)
	}
}
