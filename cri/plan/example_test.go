package plan_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// A container of two has exited: it is started again, and the other is left alone.
func ExampleCompute() {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}, {Name: "log"}}
	rt := &podsync.RuntimePod{
		Sandboxes: []*runtimeapi.PodSandboxStatus{{Id: "box", State: runtimeapi.PodSandboxState_SANDBOX_READY}},
		Containers: []*podsync.RuntimeContainer{
			{ID: "2", Name: "log", SandboxID: "box", State: runtimeapi.ContainerState_CONTAINER_RUNNING},
			{ID: "1", Name: "web", SandboxID: "box", State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: 1},
		},
	}
	a := plan.Compute(plan.Input{Pod: pod, Runtime: rt})
	for _, s := range a.Start {
		fmt.Println("start", s.Kind, s.Name)
	}
	// Output: start regular web
}
