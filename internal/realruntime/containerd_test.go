//go:build linux

package realruntime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"

	"github.com/podsync/sdk/internal/realruntime"
)

// start brings up a registry and a containerd, and stops them at the end of the test.
func start(t *testing.T, c realruntime.Config) (*realruntime.Containerd, *realruntime.Registry) {
	t.Helper()
	if why := realruntime.Missing(); why != "" {
		t.Skip(why)
	}
	registry, err := realruntime.StartRegistry(t.Context(), realruntime.RegistryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registry.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.SandboxImage = registry.Image("pause:3.10")
	node, err := realruntime.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, node) })
	return node, registry
}

// stop stops and checks that nothing is left.
func stop(t *testing.T, node *realruntime.Containerd) {
	t.Helper()
	if err := node.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	leaks, err := node.Leaks()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leaks {
		t.Errorf("left behind: %s", l)
	}
}

func connect(t *testing.T, node *realruntime.Containerd) (internalapi.RuntimeService, internalapi.ImageManagerService) {
	t.Helper()
	runtimes, err := remote.NewRemoteRuntimeService(t.Context(), node.Endpoint(), 10*time.Second, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	images, err := remote.NewRemoteImageService(t.Context(), node.Endpoint(), 10*time.Second, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return runtimes, images
}

// runPod starts a sandbox with one busybox container that sleeps.
func runPod(t *testing.T, node *realruntime.Containerd, image, name string, network runtimeapi.NamespaceMode, port int32) (sandbox, container string) {
	t.Helper()
	runtimes, images := connect(t, node)
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    node.CgroupRoot() + "/" + name,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: network}},
		},
	}
	if port > 0 {
		config.PortMappings = []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: port, HostIp: "127.0.0.1"}}
	}
	sandbox, err := runtimes.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatalf("run a sandbox: %v\n%s", err, node.Log())
	}
	if _, err := images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: image}, nil, config); err != nil {
		t.Fatalf("pull: %v", err)
	}
	container, err = runtimes.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: image}, Command: []string{"sleep", "3600"},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		}},
	}, config)
	if err != nil {
		t.Fatalf("create a container: %v", err)
	}
	if err := runtimes.StartContainer(t.Context(), container); err != nil {
		t.Fatalf("start a container: %v\n%s", err, node.Log())
	}
	return sandbox, container
}

func TestPodRunsAndNothingIsLeft(t *testing.T) {
	node, registry := start(t, realruntime.Config{})
	sandbox, container := runPod(t, node, registry.Image("busybox:1"), "web", runtimeapi.NamespaceMode_POD, 0)
	runtimes, _ := connect(t, node)
	status, err := runtimes.PodSandboxStatus(t.Context(), sandbox, false)
	if err != nil {
		t.Fatal(err)
	}
	ip := status.GetStatus().GetNetwork().GetIp()
	if prefix := strings.TrimSuffix(node.Subnet(), "0/24"); !strings.HasPrefix(ip, prefix) {
		t.Errorf("pod address %q is not in %s", ip, node.Subnet())
	}
	stdout, _, err := runtimes.ExecSync(t.Context(), container, []string{"cat", "/etc/passwd"}, 5*time.Second)
	if err != nil || !strings.HasPrefix(string(stdout), "root:") {
		t.Errorf("exec answered %q, %v", stdout, err)
	}
	stop(t, node)
}
