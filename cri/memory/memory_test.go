package memory_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a Runtime with short words for what the tests do all the time.
type node struct {
	*memory.Runtime
	t *testing.T
}

func newNode(t *testing.T, o memory.Options) node {
	t.Helper()
	n := node{memory.New(o), t}
	t.Cleanup(n.Shutdown)
	return n
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"},
		Labels:   map[string]string{"app": name, "io.kubernetes.pod.uid": name + "-uid"},
	}
}

func hostNetworkConfig(name string) *runtimeapi.PodSandboxConfig {
	c := podConfig(name)
	c.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	return c
}

func containerConfig(name string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Labels:   map[string]string{"io.kubernetes.container.name": name},
	}
}

func (n node) ctx() context.Context { return n.t.Context() }

func (n node) ok(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n node) sandbox(c *runtimeapi.PodSandboxConfig) string {
	n.t.Helper()
	id, err := n.RunPodSandbox(n.ctx(), c, "")
	n.ok(err)
	return id
}

func (n node) pull(image string) string {
	n.t.Helper()
	id, err := n.PullImage(n.ctx(), &runtimeapi.ImageSpec{Image: image}, nil, nil)
	n.ok(err)
	return id
}

func (n node) create(sandbox string, c *runtimeapi.ContainerConfig) string {
	n.t.Helper()
	n.pull(c.Image.Image)
	id, err := n.CreateContainer(n.ctx(), sandbox, c, &runtimeapi.PodSandboxConfig{})
	n.ok(err)
	return id
}

// start makes a pod with one running container called app.
func (n node) start(pod string) (sandbox, container string) {
	n.t.Helper()
	sandbox = n.sandbox(podConfig(pod))
	container = n.create(sandbox, containerConfig("app"))
	n.ok(n.StartContainer(n.ctx(), container))
	return sandbox, container
}

func (n node) status(container string) *runtimeapi.ContainerStatus {
	n.t.Helper()
	resp, err := n.ContainerStatus(n.ctx(), container, false)
	n.ok(err)
	return resp.Status
}

func (n node) podStatus(sandbox string) *runtimeapi.PodSandboxStatus {
	n.t.Helper()
	resp, err := n.PodSandboxStatus(n.ctx(), sandbox, false)
	n.ok(err)
	return resp.Status
}
