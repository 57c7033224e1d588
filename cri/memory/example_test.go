package memory_test

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

func Example() {
	ctx := context.Background()
	rt := memory.New(memory.Options{Rules: []memory.Rule{memory.Exits("init", 0)}})
	defer rt.Shutdown()

	image := &runtimeapi.ImageSpec{Image: "busybox"}
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	if _, err := rt.PullImage(ctx, image, nil, pod); err != nil {
		fmt.Println(err)
	}
	sandbox, err := rt.RunPodSandbox(ctx, pod, "")
	if err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"init", "app"} {
		id, err := rt.CreateContainer(ctx, sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: image,
		}, pod)
		if err != nil {
			fmt.Println(err)
		}
		if err := rt.StartContainer(ctx, id); err != nil {
			fmt.Println(err)
		}
	}
	for _, c := range rt.Containers() {
		fmt.Println(c.Name, c.State, c.ExitCode)
	}
	fmt.Println(rt.Calls())
	// Output:
	// init CONTAINER_EXITED 0
	// app CONTAINER_RUNNING 0
	// PullImage busybox
	// RunPodSandbox default/web#0
	// CreateContainer default/web/init
	// StartContainer default/web/init
	// CreateContainer default/web/app
	// StartContainer default/web/app
}

// The reply to RunPodSandbox is lost after the sandbox was made: what does the agent do next?
func ExampleLoseReply() {
	rt := memory.New(memory.Options{Intercept: memory.Times(1, memory.LoseReply("RunPodSandbox", nil))})
	defer rt.Shutdown()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	for range 2 {
		_, err := rt.RunPodSandbox(context.Background(), pod, "")
		fmt.Printf("%.60s\n", err)
	}
	fmt.Println(rt.Leftovers())
	// Output:
	// rpc error: code = Unavailable desc = error reading from serv
	// failed to reserve sandbox name "web_default_1_0": name "web_
	// [sandbox default/web SANDBOX_READY address 10.88.0.2]
}

// The agent loses its power right after its second call that changes something.
func ExampleRuntime_PowerCut() {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	cut := rt.PowerCut(2, memory.After)

	ctx := context.Background()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}}
	_, err := rt.PullImage(ctx, &runtimeapi.ImageSpec{Image: "busybox"}, nil, pod)
	fmt.Println("pull:", err)
	_, err = rt.RunPodSandbox(ctx, pod, "")
	fmt.Println("run:", err != nil)
	<-cut // here a test ends its agent, and starts another after Restore
	rt.Restore()
	fmt.Println(rt.Leftovers())
	// Output:
	// pull: <nil>
	// run: true
	// [sandbox default/web SANDBOX_READY address 10.88.0.2]
}
