package apiserver

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/status"
)

// Merge returns the status that the server is to have: the agent's, with what is
// others' to say as the server has it. These are the conditions of other types,
// nominatedNodeName and the statuses of resource claims. A phase that is terminal
// in the server stays. It is a pure function and changes neither.
func Merge(server, agent *corev1.PodStatus) *corev1.PodStatus {
	next := agent.DeepCopy()
	next.Conditions = nil
	for i := range server.Conditions {
		if c := &server.Conditions[i]; !status.OwnsCondition(c.Type) {
			next.Conditions = append(next.Conditions, *c)
		}
	}
	for i := range agent.Conditions {
		if c := &agent.Conditions[i]; status.OwnsCondition(c.Type) {
			next.Conditions = append(next.Conditions, *c)
		}
	}
	// What a controller said of a disruption stays until the agent has its own.
	if c := find(server, corev1.DisruptionTarget); c != nil && find(agent, corev1.DisruptionTarget) == nil {
		next.Conditions = append(next.Conditions, *c)
	}
	next.NominatedNodeName = server.NominatedNodeName
	next.ResourceClaimStatuses = server.ResourceClaimStatuses
	if next.ExtendedResourceClaimStatus == nil {
		next.ExtendedResourceClaimStatus = server.ExtendedResourceClaimStatus
	}
	if next.QOSClass == "" {
		next.QOSClass = server.QOSClass
	}
	if server.StartTime != nil {
		next.StartTime = server.StartTime // said once and for all
	}
	if status.Terminal(server.Phase) {
		next.Phase = server.Phase
		if server.Phase != agent.Phase {
			next.Reason, next.Message = server.Reason, server.Message
		}
	}
	return next
}

func find(s *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// owned is the part of a status that is the agent's to say.
func owned(s *corev1.PodStatus) *corev1.PodStatus {
	o := Merge(&corev1.PodStatus{}, s)
	o.NominatedNodeName, o.ResourceClaimStatuses, o.ExtendedResourceClaimStatus = "", nil, nil
	return o
}
