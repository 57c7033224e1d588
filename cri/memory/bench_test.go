package memory_test

import (
	"context"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

// busy makes a runtime with that many pods of three running containers each, with the labels and
// annotations of a kubelet.
func busy(b *testing.B, pods int) (rt *memory.Runtime, sandbox, container string) {
	b.Helper()
	rt = memory.New(memory.Options{Record: -1})
	b.Cleanup(rt.Shutdown)
	ctx := context.Background()
	if _, err := rt.PullImage(ctx, spec("busybox"), nil, nil); err != nil {
		b.Fatal(err)
	}
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		config := podConfig(name)
		config.Annotations = map[string]string{"kubernetes.io/config.seen": "x", "kubernetes.io/config.source": "file"}
		var err error
		if sandbox, err = rt.RunPodSandbox(ctx, config, ""); err != nil {
			b.Fatal(err)
		}
		for _, c := range []string{"a", "b", "c"} {
			cc := containerConfig(c)
			cc.Labels = map[string]string{
				"io.kubernetes.container.name": c, "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": name,
			}
			cc.Annotations = map[string]string{
				"io.kubernetes.container.hash": "abcd", "io.kubernetes.container.restartCount": "0",
				"io.kubernetes.container.terminationMessagePath": "/dev/termination-log", "io.kubernetes.pod.terminationGracePeriod": "30",
			}
			if container, err = rt.CreateContainer(ctx, sandbox, cc, config); err != nil {
				b.Fatal(err)
			}
			if err = rt.StartContainer(ctx, container); err != nil {
				b.Fatal(err)
			}
		}
	}
	return rt, sandbox, container
}

func BenchmarkListContainers(b *testing.B) {
	rt, sandbox, _ := busy(b, 500)
	for name, f := range map[string]*runtimeapi.ContainerFilter{"all": nil, "of one pod": {PodSandboxId: sandbox}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rt.ListContainers(b.Context(), f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkContainerStatus(b *testing.B) {
	rt, _, container := busy(b, 500)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.ContainerStatus(b.Context(), container, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPodLife is a pod with one container from sandbox to removal.
func BenchmarkPodLife(b *testing.B) {
	rt, _, _ := busy(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		config := podConfig("bench")
		sandbox, err := rt.RunPodSandbox(b.Context(), config, "")
		if err != nil {
			b.Fatal(err)
		}
		id, err := rt.CreateContainer(b.Context(), sandbox, containerConfig("app"), config)
		if err != nil {
			b.Fatal(err)
		}
		if err := rt.StartContainer(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		if err := rt.StopContainer(b.Context(), id, 30); err != nil {
			b.Fatal(err)
		}
		if err := rt.RemovePodSandbox(b.Context(), sandbox); err != nil {
			b.Fatal(err)
		}
	}
}
