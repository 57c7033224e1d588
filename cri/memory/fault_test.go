package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/sdk/cri/memory"
)

// startPod is what an agent does for a pod, until the first error.
func startPod(ctx context.Context, rt *memory.Runtime, name string) error {
	if _, err := rt.PullImage(ctx, spec("busybox"), nil, nil); err != nil {
		return err
	}
	sandbox, err := rt.RunPodSandbox(ctx, podConfig(name), "")
	if err != nil {
		return err
	}
	id, err := rt.CreateContainer(ctx, sandbox, containerConfig("app"), podConfig(name))
	if err != nil {
		return err
	}
	return rt.StartContainer(ctx, id)
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name  string
		fault memory.Intercept
		code  codes.Code
		err   error // errors.Is
		took  time.Duration
		calls []string // mutating
		left  int      // sandboxes, containers and addresses
	}{
		{"none", nil, codes.OK, nil, 0, []string{
			"PullImage busybox", "RunPodSandbox default/web#0", "CreateContainer default/web/app", "StartContainer default/web/app"}, 3},
		{"the nth call", memory.FailNth(2, boom), codes.Unknown, boom, 0, []string{"PullImage busybox", "RunPodSandbox default/web#0 error=Unknown"}, 0},
		{"a method", memory.FailCall("CreateContainer", boom), codes.Unknown, boom, 0, []string{
			"PullImage busybox", "RunPodSandbox default/web#0", "CreateContainer default/web/app error=Unknown"}, 2},
		{"a method once", memory.OnNth("CreateContainer", 2, memory.Fault{Err: boom}), codes.OK, nil, 0, []string{
			"PullImage busybox", "RunPodSandbox default/web#0", "CreateContainer default/web/app", "StartContainer default/web/app"}, 3},
		{"a mutation", memory.OnMutation(1, memory.Fault{Err: boom}), codes.Unknown, boom, 0, []string{"PullImage busybox error=Unknown"}, 0},
		{"lost reply", memory.LoseReply("RunPodSandbox", nil), codes.Unavailable, memory.ErrReplyLost, 0, []string{
			"PullImage busybox", "RunPodSandbox default/web#0 error=Unavailable"}, 2},
		{"hang", memory.Hang("RunPodSandbox"), codes.DeadlineExceeded, nil, time.Minute, []string{
			"PullImage busybox", "RunPodSandbox default/web#0 error=DeadlineExceeded"}, 0},
		{"hang after the work", memory.On("RunPodSandbox", memory.Fault{HangReply: true}), codes.DeadlineExceeded, nil, time.Minute, []string{
			"PullImage busybox", "RunPodSandbox default/web#0 error=DeadlineExceeded"}, 2},
		{"delay", memory.Delay("", time.Second), codes.OK, nil, 4 * time.Second, []string{
			"PullImage busybox", "RunPodSandbox default/web#0", "CreateContainer default/web/app", "StartContainer default/web/app"}, 3},
		{"delay beyond the deadline", memory.Delay("RunPodSandbox", time.Hour), codes.DeadlineExceeded, nil, time.Minute, []string{
			"PullImage busybox", "RunPodSandbox default/web#0 error=DeadlineExceeded"}, 0},
		{"chain", memory.Chain(memory.Delay("PullImage", time.Second), memory.Times(0, memory.FailCall("", boom)), memory.FailCall("StartContainer", boom)),
			codes.Unknown, boom, time.Second, []string{
				"PullImage busybox", "RunPodSandbox default/web#0", "CreateContainer default/web/app", "StartContainer default/web/app error=Unknown"}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, memory.Options{Intercept: tt.fault})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := startPod(ctx, n.Runtime, "web")
				if status.Code(err) != tt.code || tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %s", err, tt.code)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if diff := cmp.Diff(tt.calls, n.Calls().Mutating().Lines()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if left := n.Leftovers(); len(left) != tt.left {
					t.Errorf("left %q, want %d", left, tt.left)
				}
			})
		})
	}
}

func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{CallTimeout: time.Minute, Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true})}})
		_, id := n.start("web")
		began := time.Now()
		n.ok(n.StopContainer(t.Context(), id, 90)) // its grace comes on top
		if took := time.Since(began); took != 90*time.Second {
			t.Errorf("stop took %s", took)
		}
		n.SetIntercept(memory.Hang(""))
		for method, want := range map[string]time.Duration{"Status": time.Minute, "RunPodSandbox": 2 * time.Minute} {
			began := time.Now()
			var err error
			if method == "Status" {
				_, err = n.Status(t.Context(), false)
			} else {
				_, err = n.RunPodSandbox(t.Context(), podConfig("db"), "")
			}
			if status.Code(err) != codes.DeadlineExceeded || time.Since(began) != want {
				t.Errorf("%s: %v after %s, want %s", method, err, time.Since(began), want)
			}
		}
	})
}

func TestPowerCutAtEveryCall(t *testing.T) {
	for _, moment := range []memory.Moment{memory.Before, memory.After} {
		for at := 1; at <= 4; at++ {
			n := newNode(t, memory.Options{})
			cut := n.PowerCut(at, moment)
			if err := startPod(t.Context(), n.Runtime, "web"); status.Code(err) != codes.Unavailable {
				t.Fatalf("cut %d/%d: %v", at, moment, err)
			}
			select {
			case <-cut:
			default:
				t.Fatalf("cut %d/%d is not reported", at, moment)
			}
			if _, err := n.ListContainers(t.Context(), nil); status.Code(err) != codes.Unavailable {
				t.Errorf("cut %d/%d: a read gets through: %v", at, moment, err)
			}
			done := at - 1
			if moment == memory.After {
				done = at
			}
			n.Restore()
			want := []int{0, 0, 2, 3, 3}[done]
			if left := n.Leftovers(); len(left) != want {
				t.Errorf("cut %d/%d: left %q, want %d", at, moment, left, want)
			}
			list, err := n.ListContainers(t.Context(), nil)
			n.ok(err)
			if done == 4 && list[0].State != running {
				t.Errorf("cut %d/%d: the started container is %s", at, moment, list[0].State)
			}
		}
	}
	n := newNode(t, memory.Options{})
	n.PowerCut(10, memory.Before)
	n.ok(startPod(t.Context(), n.Runtime, "web")) // a cut that does not come
	n.Restore()
	for range 10 {
		n.pull("busybox")
	}
}

// TestPowerCutReachesCallsThatWait: nobody who waits learns of what happens after the cut.
func TestPowerCutReachesCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{IgnoreTERM: true})}})
		_, id := n.start("web")
		stopped := make(chan error, 1)
		go func() { stopped <- n.StopContainer(t.Context(), id, 30) }()
		synctest.Wait()
		n.PowerCut(1, memory.After)
		if err := startPod(t.Context(), n.Runtime, "db"); status.Code(err) != codes.Unavailable {
			t.Errorf("the fatal call: %v", err)
		}
		if err := <-stopped; status.Code(err) != codes.Unavailable {
			t.Errorf("the call that waits: %v", err)
		}
	})
}

// TestDownAndUp is what REC-06 asks of the runtime: it goes away, and comes back with one container that
// runs, one of unknown state and one missing.
func TestDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.ExitsAfter("short", time.Second, 3)}})
		sandbox, app := n.start("web")
		ids := map[string]string{}
		for _, name := range []string{"lost", "missing", "short"} {
			ids[name] = n.create(sandbox, containerConfig(name))
			n.ok(n.StartContainer(t.Context(), ids[name]))
		}
		n.Down()
		if _, err := n.ContainerStatus(t.Context(), app, false); status.Code(err) != codes.Unavailable {
			t.Errorf("down: %v", err)
		}
		time.Sleep(30 * time.Second)
		named := func(name string) func(memory.Container) bool {
			return func(c memory.Container) bool { return c.Name == name }
		}
		if n.SetUnknown(named("lost")) != 1 || n.Forget(named("missing")) != 1 {
			t.Error("not found")
		}
		n.Up()
		if st := n.status(app); st.State != running {
			t.Errorf("app: %v", st)
		}
		if st := n.status(ids["short"]); st.State != exited || st.ExitCode != 3 || st.FinishedAt-st.StartedAt != int64(time.Second) {
			t.Errorf("what ended meanwhile: %v", st)
		}
		if st := n.status(ids["lost"]); st.State.String() != "CONTAINER_UNKNOWN" || st.ExitCode != 255 {
			t.Errorf("lost: %v", st)
		}
		n.ok(n.StopContainer(t.Context(), ids["lost"], 30))
		if st := n.status(ids["lost"]); st.State != exited || st.ExitCode != 255 || st.Reason != "Unknown" {
			t.Errorf("lost, then stopped: %v", st)
		}
		if _, err := n.ContainerStatus(t.Context(), ids["missing"], false); status.Code(err) != codes.NotFound {
			t.Errorf("missing: %v", err)
		}
		n.create(sandbox, containerConfig("missing")) // its name is free again
	})
}

func TestReboot(t *testing.T) {
	n := newNode(t, memory.Options{})
	sandbox, app := n.start("web")
	n.Reboot(memory.RebootOptions{})
	if st := n.podStatus(sandbox); st.State.String() != "SANDBOX_NOTREADY" || st.Network.Ip != "" {
		t.Errorf("sandbox: %v", st)
	}
	if st := n.status(app); st.State != exited || st.ExitCode != 255 || st.Reason != "Unknown" {
		t.Errorf("container: %v", st)
	}
	n.start("db")
	n.Reboot(memory.RebootOptions{Wipe: true, WipeImages: true})
	if left := n.Leftovers(); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
	if images, err := n.ListImages(t.Context(), nil); err != nil || len(images) != 0 {
		t.Errorf("images: %v, %v", images, err)
	}
	n.start("web")
}

func TestKillSandbox(t *testing.T) {
	n := newNode(t, memory.Options{})
	sandbox, app := n.start("web")
	n.ok(n.KillSandbox("web-uid"))
	if st := n.podStatus(sandbox); st.State.String() != "SANDBOX_NOTREADY" || st.Network.Ip == "" {
		t.Errorf("sandbox: %v", st)
	}
	if st := n.status(app); st.State != running {
		t.Errorf("container: %v", st)
	}
	if err := n.KillSandbox("web-uid"); !errors.Is(err, memory.ErrNoSuchSandbox) {
		t.Errorf("again: %v", err)
	}
}

func TestCallRecord(t *testing.T) {
	n := newNode(t, memory.Options{Record: 3})
	sandbox, id := n.start("web")
	n.ok(n.StopContainer(t.Context(), id, 30))
	_, _, err := n.ExecSync(t.Context(), id, []string{"sh", "-c", "true"}, 0)
	if err == nil {
		t.Error("exec in a stopped container")
	}
	n.ok(n.RemovePodSandbox(t.Context(), sandbox))
	n.ok(n.RemoveContainer(t.Context(), id))
	_, err = n.Status(t.Context(), false)
	n.ok(err)
	lines := n.Calls().Lines()
	want := []string{
		`StopContainer default/web/app grace=30`, `ExecSync default/web/app cmd="sh -c true" error=Unknown`,
		`RemovePodSandbox default/web#0`, `RemoveContainer id=` + id[:13], `Status`,
	}
	if diff := cmp.Diff(want, lines[len(lines)-len(want):]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n.ResetCalls()
	n.pull("busybox")
	if c := n.Calls()[0]; c.N != 1 || c.Nth != 1 || c.Mutation != 1 || c.Request == nil {
		t.Errorf("after the reset: %+v", c)
	}
	off := newNode(t, memory.Options{Record: -1})
	off.pull("busybox")
	if len(off.Calls()) != 0 {
		t.Error("a call was recorded")
	}
}

// TestInterceptMayCallTheRuntime: things happen in the middle of an agent's work.
func TestInterceptMayCallTheRuntime(t *testing.T) {
	n := newNode(t, memory.Options{})
	_, id := n.start("web")
	n.SetIntercept(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Method == "StopContainer" && c.Container == "app" {
			if err := n.Exit(c.PodUID, c.Container, 5); err != nil {
				t.Error(err)
			}
		}
		return memory.Fault{}
	})
	n.ok(n.StopContainer(t.Context(), id, 30))
	if st := n.status(id); st.ExitCode != 5 {
		t.Errorf("the exit was not first: %v", st)
	}
}
