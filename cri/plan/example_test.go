package plan_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// A container of two has exited: it is started again, and the other is left alone.
func ExampleCompute() {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}, {Name: "log"}}
	rt := &podsync.RuntimePod{
		Sandboxes: []*podsync.RuntimeSandbox{{ID: "box", Ready: true}},
		Containers: []*podsync.RuntimeContainer{
			{ID: "2", Name: "log", SandboxID: "box", State: podsync.ContainerRunning},
			{ID: "1", Name: "web", SandboxID: "box", State: podsync.ContainerExited, ExitCode: 1},
		},
	}
	a := plan.Compute(plan.Input{Pod: pod, Runtime: rt})
	for _, s := range a.Start {
		fmt.Println("start", s.Kind, s.Name)
	}
	// Output: start regular web
}
