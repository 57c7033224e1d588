package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestRestarts(t *testing.T) {
	own := func(p corev1.ContainerRestartPolicy) *corev1.ContainerRestartPolicy { return &p }
	rule := func(op corev1.ContainerRestartRuleOnExitCodesOperator, action corev1.ContainerRestartRuleAction, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	const restart, all = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	for _, tc := range []struct {
		name  string
		pod   corev1.RestartPolicy
		own   *corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		code  int32
		want  bool
	}{
		{"pod Always", corev1.RestartPolicyAlways, nil, nil, 0, true},
		{"pod OnFailure, good", corev1.RestartPolicyOnFailure, nil, nil, 0, false},
		{"pod OnFailure, bad", corev1.RestartPolicyOnFailure, nil, nil, 1, true},
		{"pod Never", corev1.RestartPolicyNever, nil, nil, 1, false},
		{"pod not defaulted", "", nil, nil, 0, true},
		{"own beats pod", corev1.RestartPolicyAlways, own(corev1.ContainerRestartPolicyNever), nil, 1, false},
		{"own OnFailure", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyOnFailure), nil, 1, true},
		{"rule matches", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule(in, restart, 42)}, 42, true},
		{"rule does not match", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule(in, restart, 42)}, 1, false},
		{"rule not in", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule(notIn, all, 42)}, 1, true},
		{"unknown action is passed over", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule(in, "Explode", 1)}, 1, false},
		{"unknown operator is passed over", corev1.RestartPolicyNever, own(corev1.ContainerRestartPolicyNever), []corev1.ContainerRestartRule{rule("Near", restart, 1)}, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.pod}}
			c := &corev1.Container{RestartPolicy: tc.own, RestartPolicyRules: tc.rules}
			if got := podspec.Restarts(pod, c, tc.code); got != tc.want {
				t.Errorf("Restarts = %v, want %v", got, tc.want)
			}
		})
	}
}
