// Package critest tests container runtimes: Runtime is what this SDK relies on
// in a RuntimeService and an ImageManagerService of k8s.io/cri-api, as tests that
// every runtime can run, a real one and one in memory alike; Funcs stands before
// a runtime and replaces single calls.
//
//	func TestRuntime(t *testing.T) {
//		critest.Runtime(t, func(t *testing.T) critest.Backend {
//			rt := memory.New(memory.Options{Rules: []memory.Rule{memory.Commands()}})
//			t.Cleanup(rt.Shutdown)
//			return critest.Backend{Runtime: rt, Images: rt, Image: "busybox:1", …}
//		})
//	}
//
// The suite is narrower than the CRI's own validation (cri-tools' critest): it
// has what the SDK calls, and holds that to what the SDK makes of the answers. It
// needs no network but for the pull of one image.
package critest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Backend is a runtime to be tested, and the few things that depend on what it
// can run. Runtime, Images, Image, Run and Exit are required.
type Backend struct {
	// Runtime and Images are the services.
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService

	// Image can be pulled without credentials; it is pulled and removed.
	Image string
	// NoImage is a valid reference that no registry has. "" leaves its pull out.
	NoImage string

	// Run is a command that runs until it gets SIGTERM and then ends soon.
	Run []string
	// Exit returns a command that ends soon by itself, with that code.
	Exit func(code int) []string
	// Stubborn is a command that SIGTERM does not end. nil leaves out what needs it.
	Stubborn []string
	// Print returns a command that prints the line on its standard output and
	// ends. nil leaves the container's log out.
	Print func(line string) []string
	// Exec is what ExecSync is tested with in a container of Run. nil leaves it out.
	Exec *ExecCommands

	// Sandbox, if set, may change the configuration of each sandbox: its cgroup
	// parent, for one.
	Sandbox func(c *runtimeapi.PodSandboxConfig)
	// MakeUnknown, if set, brings a running container into the state UNKNOWN.
	MakeUnknown func(t *testing.T, id string)
	// NoHostNetwork leaves out sandboxes in the host's network.
	NoHostNetwork bool
	// NoEvents says that the runtime has no event stream: the call must then be
	// answered with Unimplemented.
	NoEvents bool
	// Settle is how long Run and Stubborn need after their start until signals find
	// them as they should be: a shell sets its traps first. Default 0.
	Settle time.Duration
	// Patience is how long the runtime may take for anything. Default 30 s.
	Patience time.Duration
}

// ExecCommands are commands for ExecSync.
type ExecCommands struct {
	// Print prints "out" on standard output and "err" on standard error, without
	// line ends, and succeeds.
	Print []string
	// Fail ends with code 3.
	Fail []string
	// Sleep runs for 10 s or longer.
	Sleep []string
}

// Runtime tests a runtime. create is called once for each part, and registers
// its own cleanup; several parts may be given one runtime. Each part uses pods of
// its own and removes them.
func Runtime(t *testing.T, create func(t *testing.T) Backend) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(k *kit)
	}{
		{"Version", version},
		{"Status", readiness},
		{"SandboxLife", sandboxLife},
		{"SandboxVerbatim", sandboxVerbatim},
		{"SandboxHostNetwork", sandboxHostNetwork},
		{"SandboxNameIsReserved", sandboxName},
		{"SandboxFilters", sandboxFilters},
		{"SandboxTakesContainersAlong", sandboxTakesContainers},
		{"ContainerLife", containerLife},
		{"ContainerVerbatim", containerVerbatim},
		{"ContainerExits", containerExits},
		{"ContainerNameIsReserved", containerName},
		{"ContainerFilters", containerFilters},
		{"ContainerLog", containerLog},
		{"StopKeepsToTheGrace", stopGrace},
		{"StopIsIdempotent", stopIdempotent},
		{"StopOfUnknownState", stopUnknown},
		{"StopCanBeCutShort", stopCut},
		{"RemoveKills", removeKills},
		{"CreateNeedsASandbox", createRefused},
		{"ExecSync", execSync},
		{"ImagePull", imagePull},
		{"ImageAbsent", imageAbsent},
		{"Events", events},
		{"NotFound", notFound},
		{"EndedContext", endedContext},
		{"ManyAtOnce", manyAtOnce},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newKit(t, create(t))) })
	}
}

// kit is one part's view of the backend.
type kit struct {
	*testing.T
	b  Backend
	rt internalapi.RuntimeService
	im internalapi.ImageManagerService
	// run makes names unique among all parts and all runs.
	run  string
	pods atomic.Int32
	logs string
}

func newKit(t *testing.T, b Backend) *kit {
	t.Helper()
	if b.Runtime == nil || b.Images == nil || b.Image == "" || len(b.Run) == 0 || b.Exit == nil {
		t.Fatal("critest.Backend needs Runtime, Images, Image, Run and Exit")
	}
	if b.Patience <= 0 {
		b.Patience = 30 * time.Second
	}
	return &kit{T: t, b: b, rt: b.Runtime, im: b.Images, run: strings.ToLower(rand.Text()[:8]), logs: t.TempDir()}
}

// must ends the part when the call failed.
func (k *kit) must(what string, err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", what, err)
	}
}

// pod returns the configuration of a sandbox that no other part has.
func (k *kit) pod() *runtimeapi.PodSandboxConfig {
	name := "critest-" + k.run + "-" + string(rune('a'+k.pods.Add(1)-1))
	c := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "critest", Uid: name + "-uid"},
		Hostname:     name,
		LogDirectory: k.logs,
		Labels: map[string]string{
			"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "critest", "io.kubernetes.pod.uid": name + "-uid",
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_POD, Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	if k.b.Sandbox != nil {
		k.b.Sandbox(c)
	}
	return c
}

// sandbox runs a sandbox that goes with the part.
func (k *kit) sandbox(c *runtimeapi.PodSandboxConfig) string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.b.Patience)
	defer cancel()
	id, err := k.rt.RunPodSandbox(ctx, c, "")
	k.must("RunPodSandbox", err)
	if id == "" {
		k.Fatal("RunPodSandbox returned no id")
	}
	k.Cleanup(func() { k.drop(id) })
	return id
}

// drop stops and removes a sandbox with all that is in it.
func (k *kit) drop(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.Context()), k.b.Patience)
	defer cancel()
	if err := errors.Join(k.rt.StopPodSandbox(ctx, id), k.rt.RemovePodSandbox(ctx, id)); err != nil {
		k.Errorf("remove sandbox %s at the end: %v", id, err)
	}
}

// pulled makes the image present.
func (k *kit) pulled() string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), k.b.Patience)
	defer cancel()
	spec := &runtimeapi.ImageSpec{Image: k.b.Image}
	r, err := k.im.ImageStatus(ctx, spec, false)
	k.must("ImageStatus", err)
	if r.GetImage() == nil {
		_, err = k.im.PullImage(ctx, spec, nil, nil)
		k.must("PullImage", err)
	}
	return k.b.Image
}

// container returns the configuration of a container.
func (k *kit) container(name string, command ...string) *runtimeapi.ContainerConfig {
	k.Helper()
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: k.pulled(), UserSpecifiedImage: k.b.Image},
		Command:  command,
		LogPath:  name + "/0.log",
		Labels:   map[string]string{"io.kubernetes.container.name": name, "part": k.run},
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}
}

func (k *kit) create(sandbox string, c *runtimeapi.ContainerConfig, p *runtimeapi.PodSandboxConfig) string {
	k.Helper()
	id, err := k.rt.CreateContainer(k.Context(), sandbox, c, p)
	k.must("CreateContainer", err)
	if id == "" {
		k.Fatal("CreateContainer returned no id")
	}
	return id
}

func (k *kit) start(sandbox string, c *runtimeapi.ContainerConfig, p *runtimeapi.PodSandboxConfig) string {
	k.Helper()
	id := k.create(sandbox, c, p)
	k.must("StartContainer", k.rt.StartContainer(k.Context(), id))
	return id
}

// started runs one container in a sandbox of its own.
func (k *kit) started(command ...string) (id, sandbox string) {
	k.Helper()
	p := k.pod()
	sandbox = k.sandbox(p)
	return k.start(sandbox, k.container("main", command...), p), sandbox
}

func (k *kit) status(id string) *runtimeapi.ContainerStatus {
	k.Helper()
	r, err := k.rt.ContainerStatus(k.Context(), id, false)
	k.must("ContainerStatus", err)
	if r.GetStatus() == nil {
		k.Fatalf("ContainerStatus of %s has no status", id)
	}
	return r.Status
}

func (k *kit) sandboxStatus(id string) *runtimeapi.PodSandboxStatus {
	k.Helper()
	r, err := k.rt.PodSandboxStatus(k.Context(), id, false)
	k.must("PodSandboxStatus", err)
	if r.GetStatus() == nil {
		k.Fatalf("PodSandboxStatus of %s has no status", id)
	}
	return r.Status
}

// becomes waits until the container is in the state.
func (k *kit) becomes(id string, want runtimeapi.ContainerState) *runtimeapi.ContainerStatus {
	k.Helper()
	for end := time.Now().Add(k.b.Patience); ; time.Sleep(20 * time.Millisecond) {
		s := k.status(id)
		if s.State == want {
			return s
		}
		if time.Now().After(end) {
			k.Fatalf("container %s is %v after %v, want %v", id, s.State, k.b.Patience, want)
		}
	}
}

// within fails the part when fn takes longer than d.
func (k *kit) within(d time.Duration, what string, fn func() error) error {
	k.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		k.Fatalf("%s has not returned for %v", what, d)
		return nil
	}
}
