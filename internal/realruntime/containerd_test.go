//go:build linux

package realruntime_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

func TestPodsOutliveContainerd(t *testing.T) {
	node, registry := start(t, realruntime.Config{})
	_, container := runPod(t, node, registry.Image("busybox:1"), "survivor", runtimeapi.NamespaceMode_POD, 0)
	running := func(when string) {
		t.Helper()
		runtimes, _ := connect(t, node)
		status, err := runtimes.ContainerStatus(t.Context(), container, false)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if state := status.GetStatus().GetState(); state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%s: the container is %s", when, state)
		}
	}
	first := node.PID()
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if node.PID() == first {
		t.Error("after Restart it is still the old process")
	}
	running("after an orderly restart")
	node.Kill()
	if node.PID() != 0 {
		t.Error("after Kill there is still a process")
	}
	if err := node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	running("after SIGKILL and a start")
}

// TestStopAfterKill covers a containerd that cannot be asked to remove its pods, host-network ones and
// host-port rules among them, and calling Stop twice.
func TestStopAfterKill(t *testing.T) {
	node, registry := start(t, realruntime.Config{Masquerade: true})
	image := registry.Image("busybox:1")
	runPod(t, node, image, "bridged", runtimeapi.NamespaceMode_POD, 43201)
	runPod(t, node, image, "host", runtimeapi.NamespaceMode_NODE, 0)
	if rules := natRules(t); !strings.Contains(rules, node.Network()) {
		t.Errorf("expected iptables rules for %s, have:\n%s", node.Network(), rules)
	}
	node.Kill()
	stop(t, node)
	if rules := natRules(t); strings.Contains(rules, node.Network()) {
		t.Errorf("left behind:\n%s", rules)
	}
	stop(t, node)
	if err := node.Restart(t.Context()); err == nil {
		t.Error("Restart after Stop must fail")
	}
}

// TestStopWhenContainerdHangs: Stop is bounded, and sweeps what it could not ask for.
func TestStopWhenContainerdHangs(t *testing.T) {
	node, registry := start(t, realruntime.Config{StopTimeout: time.Second})
	runPod(t, node, registry.Image("busybox:1"), "stuck", runtimeapi.NamespaceMode_POD, 0)
	if err := syscall.Kill(node.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	stop(t, node)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("Stop took %v", took)
	}
}

func natRules(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "iptables-save", "-t", "nat").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// helperEnv makes TestDyingHelper, in a process of its own, start a pod and wait for its own death.
const helperEnv = "PODSYNC_REALRUNTIME_HELPER"

func TestDyingHelper(t *testing.T) {
	if os.Getenv(helperEnv) == "" {
		return // not a test of its own
	}
	node, registry := start(t, realruntime.Config{Root: os.Getenv(helperEnv)})
	runPod(t, node, registry.Image("busybox:1"), "orphan", runtimeapi.NamespaceMode_POD, 0)
	fmt.Printf("ready %d\n", node.PID())
	select {}
}

func TestSweepAfterSIGKILL(t *testing.T) {
	if why := realruntime.Missing(); why != "" {
		t.Skip(why)
	}
	root := filepath.Join(t.TempDir(), "root")
	helper := exec.Command(os.Args[0], "-test.run", "^TestDyingHelper$", "-test.v")
	helper.Env = append(os.Environ(), helperEnv+"="+root)
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = helper.Process.Kill() })
	var pid int
	lines := bufio.NewScanner(out)
	for pid == 0 && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "ready %d", &pid)
	}
	if pid == 0 {
		t.Fatal("the helper started no containerd")
	}
	if err := realruntime.Sweep(t.Context(), root); !errors.Is(err, realruntime.ErrInUse) {
		t.Errorf("sweep of a live instance: %v", err)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It is not waited for yet: a zombie does not count as alive.
	t.Cleanup(func() { _ = helper.Wait() })
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("containerd %d outlived the process that started it", pid)
		}
	}
	// The shim, the container and its mounts are still there: a new start in the same place clears them first.
	node, _ := start(t, realruntime.Config{Root: root})
	runtimes, _ := connect(t, node)
	sandboxes, err := runtimes.ListPodSandbox(t.Context(), nil)
	if err != nil || len(sandboxes) > 0 {
		t.Errorf("the new containerd has %d sandboxes, %v", len(sandboxes), err)
	}
	stop(t, node)
}

func TestTwoAtOnce(t *testing.T) {
	a, registry := start(t, realruntime.Config{})
	b, _ := start(t, realruntime.Config{})
	if a.Subnet() == b.Subnet() || a.Root() == b.Root() || a.CgroupRoot() == b.CgroupRoot() || a.Network() == b.Network() {
		t.Errorf("two instances share something: %s %s %s %s", a.Subnet(), a.Root(), a.CgroupRoot(), a.Network())
	}
	runPod(t, a, registry.Image("busybox:1"), "one", runtimeapi.NamespaceMode_POD, 0)
	stop(t, b)
	runPod(t, a, registry.Image("busybox:1"), "two", runtimeapi.NamespaceMode_POD, 0)
}

func TestNetworkOnAndOff(t *testing.T) {
	node, _ := start(t, realruntime.Config{NoNetwork: true})
	runtimes, _ := connect(t, node)
	networkReady := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			status, err := runtimes.Status(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range status.GetStatus().GetConditions() {
				if c.Type == runtimeapi.NetworkReady && c.Status == want {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("NetworkReady did not become %t: %v", want, status.GetStatus().GetConditions())
			}
		}
	}
	networkReady(false)
	if err := node.EnableNetwork(); err != nil {
		t.Fatal(err)
	}
	networkReady(true)
	if err := node.DisableNetwork(); err != nil {
		t.Fatal(err)
	}
	networkReady(false)
}

func TestStartFailsClearlyAndLeavesNothing(t *testing.T) {
	if why := realruntime.Missing(); why != "" {
		t.Skip(why)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "root")
	tests := []struct {
		name   string
		config realruntime.Config
		want   string
	}{
		{"no image", realruntime.Config{}, "SandboxImage is not set"},
		{"directory with files", realruntime.Config{SandboxImage: "x", Root: full}, "is not empty (precious)"},
		{"long path", realruntime.Config{SandboxImage: "x", Root: "/tmp/" + strings.Repeat("x", 90)}, "too long for a socket"},
		{"no programs", realruntime.Config{SandboxImage: "x", Root: empty, BinDir: full}, "no such file"},
		{"bad configuration", realruntime.Config{SandboxImage: "x", Root: empty, ExtraConfig: "no toml"}, "end of its log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := realruntime.Start(t.Context(), tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want an error with %q, got %v", tt.want, err)
			}
			if _, err := os.Stat(empty); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the root directory is still there: %v", err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}

func TestSweepTouchesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	forged := filepath.Join(dir, "forged")
	if err := os.Mkdir(forged, 0o700); err != nil {
		t.Fatal(err)
	}
	// Somebody else's file that names another directory as the root to remove.
	forgery := `{"pid":1,"startTime":"none","token":"00000000","root":"` + dir + `","socketDir":"/etc"}`
	if err := os.WriteFile(filepath.Join(forged, "instance.json"), []byte(forgery), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{dir, forged} {
		if err := realruntime.Sweep(t.Context(), root); !errors.Is(err, realruntime.ErrNotOurs) {
			t.Errorf("sweep %s: %v", root, err)
		}
	}
	if _, err := os.Stat(filepath.Join(forged, "instance.json")); err != nil {
		t.Error(err)
	}
	if err := realruntime.Sweep(t.Context(), filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}
