package apiserver_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/status/apiserver"
)

// What others said of a pod survives a write of the agent.
func ExampleMerge() {
	server := &corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: "example.com/gate", Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse},
	}}
	agent := &corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	next := apiserver.Merge(server, agent)
	fmt.Println(next.Phase)
	for _, c := range next.Conditions {
		fmt.Println(c.Type, c.Status)
	}
	// Output:
	// Running
	// example.com/gate True
	// Ready True
}
