package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podsync/sdk/cri/memory"
)

const (
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
	created = runtimeapi.ContainerState_CONTAINER_CREATED
)

func TestHowContainersEnd(t *testing.T) {
	tests := []struct {
		name      string
		behaviour memory.Behaviour
		grace     int64 // of a stop right after the start; -1: none
		after     time.Duration
		code      int32
		reason    string
		still     bool // it runs on
	}{
		{"stopped", memory.Behaviour{}, 30, 0, 143, "Error", false},
		{"stopped cleanly", memory.Behaviour{TermExitCode: new(int32)}, 30, 0, 0, "Completed", false},
		{"stopped slowly", memory.Behaviour{TermDelay: 4 * time.Second}, 30, 4 * time.Second, 143, "Error", false},
		{"too slow", memory.Behaviour{TermDelay: 40 * time.Second}, 30, 30 * time.Second, 137, "Error", false},
		{"ignores the signal", memory.Behaviour{IgnoreTERM: true}, 10, 10 * time.Second, 137, "Error", false},
		{"no grace", memory.Behaviour{TermDelay: time.Hour}, 0, 0, 137, "Error", false},
		{"ends before the signal takes effect", memory.Behaviour{RunFor: 2 * time.Second, ExitCode: 7, TermDelay: 5 * time.Second}, 30, 2 * time.Second, 7, "Error", false},
		{"ends at once", memory.Behaviour{Exits: true}, -1, 0, 0, "Completed", false},
		{"ends by itself", memory.Behaviour{RunFor: time.Minute, ExitCode: 3}, -1, time.Minute, 3, "Error", false},
		{"with a reason", memory.Behaviour{RunFor: time.Minute, ExitCode: 137, Reason: "OOMKilled"}, -1, time.Minute, 137, "OOMKilled", false},
		{"runs on", memory.Behaviour{}, -1, time.Hour, 0, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", tt.behaviour)}})
				_, id := n.start("web")
				began := time.Now()
				if tt.grace >= 0 {
					n.ok(n.StopContainer(t.Context(), id, tt.grace))
				} else {
					time.Sleep(tt.after)
					synctest.Wait()
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %s, want %s", took, tt.after)
				}
				st := n.status(id)
				if tt.still {
					if st.State != running || st.FinishedAt != 0 {
						t.Errorf("it does not run: %v", st)
					}
					return
				}
				if st.State != exited || st.ExitCode != tt.code || st.Reason != tt.reason {
					t.Errorf("%s %d %s, want exited %d %s", st.State, st.ExitCode, st.Reason, tt.code, tt.reason)
				}
				if got := time.Duration(st.FinishedAt - st.StartedAt); got != tt.after {
					t.Errorf("finished %s after its start, want %s", got, tt.after)
				}
				n.ok(n.StopContainer(t.Context(), id, 30))
			})
		})
	}
}

func TestStopIsCutShortByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true})}})
		_, id := n.start("web")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := n.StopContainer(ctx, id, 30); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("stop: %v", err)
		}
		time.Sleep(time.Hour)
		if st := n.status(id); st.State != running {
			t.Errorf("a stop that was given up has killed the container: %v", st)
		}
		canceled, stop := context.WithCancelCause(t.Context())
		stop(errors.New("superseded"))
		if err := n.StopContainer(canceled, id, 30); status.Code(err) != codes.Canceled {
			t.Errorf("stop with a canceled context: %v", err)
		}
		// A shorter grace beside a longer one wins.
		go func() { _ = n.StopContainer(t.Context(), id, 30) }()
		began := time.Now()
		n.ok(n.StopContainer(t.Context(), id, 2))
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestUnkillableContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{Unkillable: true})}})
		sandbox, id := n.start("web")
		for name, call := range map[string]func(context.Context) error{
			"StopContainer":    func(ctx context.Context) error { return n.StopContainer(ctx, id, 1) },
			"RemoveContainer":  func(ctx context.Context) error { return n.RemoveContainer(ctx, id) },
			"RemovePodSandbox": func(ctx context.Context) error { return n.RemovePodSandbox(ctx, sandbox) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := call(ctx); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		n.ok(n.Exit("web-uid", "app", 1))
		n.ok(n.RemovePodSandbox(t.Context(), sandbox))
	})
}

func TestContainerStatusFields(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := newNode(t, memory.Options{
		Clock:  testclock.NewFakeClock(now),
		Images: []memory.Image{{Ref: "shop/cart:1.2", User: "1001:1002", StopSignal: runtimeapi.Signal_SIGNAL_SIGQUIT}},
	})
	sandbox := n.sandbox(podConfig("web"))
	c := containerConfig("app")
	c.Image.Image = "docker.io/shop/cart:1.2"
	c.Metadata.Attempt = 3
	c.Annotations = map[string]string{"io.kubernetes.container.hash": "abc"}
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: "/srv", Readonly: true}}
	c.LogPath = "app/3.log"
	c.Linux = &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{CpuShares: 512, MemoryLimitInBytes: 1 << 20}}
	id, err := n.CreateContainer(t.Context(), sandbox, c, &runtimeapi.PodSandboxConfig{LogDirectory: "/var/log/pods/x"})
	n.ok(err)
	image, err := n.ImageStatus(t.Context(), c.Image, false)
	n.ok(err)
	want := &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3}, State: created,
		CreatedAt: now.UnixNano() + 1, // the sandbox came first, at the same time
		Image:     &runtimeapi.ImageSpec{Image: "docker.io/shop/cart:1.2"},
		ImageRef:  image.Image.RepoDigests[0], ImageId: image.Image.Id,
		Labels: c.Labels, Annotations: c.Annotations, Mounts: c.Mounts, LogPath: "/var/log/pods/x/app/3.log",
		Resources:  &runtimeapi.ContainerResources{Linux: c.Linux.Resources},
		User:       &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1001, Gid: 1002}},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGQUIT,
	}
	if diff := cmp.Diff(want, n.status(id), protocmp.Transform()); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	n.ok(n.StartContainer(t.Context(), id))
	n.ok(n.UpdateContainerResources(t.Context(), id, &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 1024}}))
	want.State, want.StartedAt = running, now.UnixNano()
	want.Resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 1024, MemoryLimitInBytes: 1 << 20}}
	if diff := cmp.Diff(want, n.status(id), protocmp.Transform()); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	n.ok(n.OOMKill("web-uid", "app"))
	want.State, want.ExitCode, want.Reason, want.FinishedAt = exited, 137, "OOMKilled", want.StartedAt
	if diff := cmp.Diff(want, n.status(id), protocmp.Transform()); diff != "" {
		t.Errorf("exited (-want +got):\n%s", diff)
	}
	if err := n.OOMKill("web-uid", "app"); !errors.Is(err, memory.ErrNoSuchContainer) {
		t.Errorf("killing it again: %v", err)
	}
}

func TestContainerNamesAndStates(t *testing.T) {
	n := newNode(t, memory.Options{})
	sandbox, id := n.start("web")
	_, err := n.CreateContainer(t.Context(), sandbox, containerConfig("app"), nil)
	if err == nil || !strings.Contains(err.Error(), `failed to reserve container name "app_web_default_web-uid_0"`) {
		t.Errorf("second container of one name: %v", err)
	}
	if err := n.StartContainer(t.Context(), id); err == nil || !strings.Contains(err.Error(), "CONTAINER_RUNNING state") {
		t.Errorf("start of a running container: %v", err)
	}
	n.ok(n.RemoveContainer(t.Context(), id)) // kills it first
	id = n.create(sandbox, containerConfig("app"))
	n.ok(n.StopContainer(t.Context(), id, 30))
	if st := n.status(id); st.State != created {
		t.Errorf("stop of a created container made it %s", st.State)
	}
}

func TestFailingStart(t *testing.T) {
	boom := errors.New("exec: no such file")
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{
			memory.Named("bad", memory.Behaviour{StartError: boom}),
			memory.Named("slow", memory.Behaviour{StartDelay: time.Minute}),
			memory.Named("never", memory.Behaviour{CreateError: boom}),
		}})
		sandbox := n.sandbox(podConfig("web"))
		bad := n.create(sandbox, containerConfig("bad"))
		if err := n.StartContainer(t.Context(), bad); !errors.Is(err, boom) || status.Code(err) != codes.Unknown {
			t.Errorf("start: %v", err)
		}
		st := n.status(bad)
		if st.State != exited || st.ExitCode != 128 || st.Reason != "StartError" || st.StartedAt != 0 || !strings.Contains(st.Message, boom.Error()) {
			t.Errorf("status after a failed start: %v", st)
		}
		slow := n.create(sandbox, containerConfig("slow"))
		go func() { _ = n.StartContainer(t.Context(), slow) }()
		synctest.Wait()
		if err := n.RemoveContainer(t.Context(), slow); err == nil || !strings.Contains(err.Error(), "starting state") {
			t.Errorf("remove while starting: %v", err)
		}
		if err := n.StartContainer(t.Context(), slow); err == nil || !strings.Contains(err.Error(), "already in starting state") {
			t.Errorf("start while starting: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := n.status(slow); st.State != running {
			t.Errorf("slow start: %v", st)
		}
		if _, err := n.CreateContainer(t.Context(), sandbox, containerConfig("never"), nil); !errors.Is(err, boom) {
			t.Errorf("create: %v", err)
		}
	})
}

// TestFakeClock: after a step, the next call sees everything that came due, at the time it was due.
func TestFakeClock(t *testing.T) {
	fake := testclock.NewFakeClock(time.Unix(1000, 0))
	n := newNode(t, memory.Options{Clock: fake, Rules: []memory.Rule{memory.ExitsAfter("app", 10*time.Second, 2)}})
	_, id := n.start("web")
	fake.Step(9 * time.Second)
	if st := n.status(id); st.State != running {
		t.Fatalf("too early: %v", st)
	}
	fake.Step(time.Hour)
	if st := n.status(id); st.State != exited || st.FinishedAt-st.StartedAt != int64(10*time.Second) {
		t.Fatalf("after the step: %v", st)
	}
	stubborn := memory.Named("app", memory.Behaviour{IgnoreTERM: true})
	n.AddRule(stubborn)
	_, id = n.start("db")
	stopped := make(chan error)
	go func() { stopped <- n.StopContainer(t.Context(), id, 30) }()
	for !fake.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	fake.Step(30 * time.Second)
	n.ok(<-stopped)
	if fake.HasWaiters() {
		t.Error("a timer is left on the clock")
	}
}

var _ memory.Clock = clock.RealClock{}

func TestRules(t *testing.T) {
	n := newNode(t, memory.Options{
		Rules: []memory.Rule{
			memory.Exits("init", 0), memory.FailsFirst("flaky", 2, 5, memory.Behaviour{}),
			memory.InPod("job", "app", memory.Behaviour{Exits: true, ExitCode: 9}),
			memory.OfImage("docker.io/library/true:latest", memory.Behaviour{Exits: true, ExitCode: 4}),
		},
		Script: func(c memory.Container) memory.Behaviour {
			return memory.Behaviour{Exits: c.Name == "scripted" && c.PodNamespace == "default", ExitCode: 6}
		},
	})
	tests := []struct {
		pod, container string
		image          string
		attempt        uint32
		state          runtimeapi.ContainerState
		code           int32
	}{
		{"a", "init", "busybox", 0, exited, 0},
		{"a", "flaky", "busybox", 1, exited, 5},
		{"a", "flaky", "busybox", 2, running, 0},
		{"a", "app", "busybox", 0, running, 0},
		{"job", "app", "busybox", 0, exited, 9},
		{"a", "other", "true", 0, exited, 4},
		{"a", "scripted", "busybox", 0, exited, 6},
	}
	for i, tt := range tests {
		config := podConfig(tt.pod)
		config.Metadata.Attempt = uint32(i)
		c := containerConfig(tt.container)
		c.Image.Image, c.Metadata.Attempt = tt.image, tt.attempt
		id := n.create(n.sandbox(config), c)
		n.ok(n.StartContainer(t.Context(), id))
		if st := n.status(id); st.State != tt.state || st.ExitCode != tt.code {
			t.Errorf("%s/%s#%d: %s %d, want %s %d", tt.pod, tt.container, tt.attempt, st.State, st.ExitCode, tt.state, tt.code)
		}
	}
}
