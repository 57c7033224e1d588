package status_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

func examplePod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "4f2a"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/web:1"}},
		},
	}
}

func exampleRuntime(state podsync.ContainerState, exitCode int32) *podsync.RuntimePod {
	return &podsync.RuntimePod{
		ObservedAt: time.Unix(1_700_000_000, 0),
		Sandboxes:  []*podsync.RuntimeSandbox{{ID: "sb"}},
		Containers: []*podsync.RuntimeContainer{{ID: "c1", Name: "main", SandboxID: "sb", State: state, ExitCode: exitCode}},
	}
}

// A pod's status from its start to its end: the stages compute it, the manager
// keeps it and writes it to its sinks.
func Example() {
	ctx := context.Background()
	sink := &status.MemorySink{}
	m := status.New(status.Options{Sinks: []status.Sink{sink}})
	pod := examplePod()

	running := podsync.NewSync(pod, podsync.WithRuntimePod(exampleRuntime(podsync.ContainerRunning, 0)))
	fmt.Println(status.Publish(m).Run(ctx, running))
	if err := m.Flush(ctx); err != nil { // an agent has m.Run instead
		fmt.Println(err)
	}

	exited := podsync.NewSync(pod, podsync.WithRuntimePod(exampleRuntime(podsync.ContainerExited, 0)))
	fmt.Println(status.Publish(m).Run(ctx, exited))
	fmt.Println(status.Final(m).Run(ctx, exited))
	if err := m.Flush(ctx); err != nil {
		fmt.Println(err)
	}

	for _, w := range sink.Writes(pod.UID) {
		fmt.Println("written:", w.Status.Phase)
	}
	// Output:
	// Continue
	// Done(PodCompleted)
	// Continue
	// written: Running
	// written: Succeeded
}

// Status is a pure function; a manager is not needed to compute one.
func ExampleCompute() {
	s := status.Compute(status.Input{
		Pod:     examplePod(),
		Runtime: exampleRuntime(podsync.ContainerExited, 3),
		Now:     metav1.NewTime(time.Unix(1_700_000_000, 0)),
		// Nothing of it runs any more: the phase may become terminal.
		Terminal: true,
	})
	fmt.Println(s.Phase, s.ContainerStatuses[0].State.Terminated.ExitCode)
	// Output: Failed 3
}

func ExampleSummary() {
	pod := examplePod()
	pod.Status = status.Compute(status.Input{
		Pod:     pod,
		Runtime: &podsync.RuntimePod{ObservedAt: time.Unix(1_700_000_000, 0)},
		Waiting: status.Waiting{Reason: "NetworkNotReady", Message: "cni plugin not initialized"},
		Now:     metav1.NewTime(time.Unix(1_700_000_000, 0)),
	})
	ready, word, restarts := status.Summary(pod)
	fmt.Println(pod.Name, ready, word, restarts)
	// Output: web 0/1 NetworkNotReady 0
}

// A test waits for a status instead of sleeping.
func ExampleManager_Wait() {
	m := status.New(status.Options{})
	pod := examplePod()
	go status.Publish(m).Run(context.Background(), podsync.NewSync(pod,
		podsync.WithRuntimePod(exampleRuntime(podsync.ContainerRunning, 0))))

	s, err := m.Wait(context.Background(), pod.UID, func(s corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	fmt.Println(s.Phase, err)
	// Output: Running <nil>
}
