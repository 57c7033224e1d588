package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

// listen opens an event stream inside a bubble; the functions read what has come, and end it.
func (n node) listen() (next func() []string, end func() error) {
	n.t.Helper()
	ch := make(chan *runtimeapi.ContainerEventResponse, 100)
	ctx, cancel := context.WithCancel(n.ctx())
	done := make(chan error, 1)
	opened := make(chan struct{})
	go func() {
		done <- n.GetContainerEvents(ctx, ch, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(opened) })
	}()
	<-opened
	next = func() []string {
		synctest.Wait()
		var lines []string
		for len(ch) > 0 {
			e := <-ch
			what := "sandbox"
			states := ""
			for _, c := range e.ContainersStatuses {
				states += fmt.Sprintf(" %s=%s", c.Metadata.Name, c.State.String()[len("CONTAINER_"):])
				if c.Id == e.ContainerId {
					what = c.Metadata.Name
				}
			}
			pod := "-"
			if e.PodSandboxStatus != nil {
				pod = e.PodSandboxStatus.State.String()[len("SANDBOX_"):]
				if e.ContainerId != e.PodSandboxStatus.Id && what == "sandbox" {
					what = "gone"
				}
			}
			kind := e.ContainerEventType.String()[len("CONTAINER_"):]
			lines = append(lines, fmt.Sprintf("%s %s: %s%s", what, kind[:len(kind)-len("_EVENT")], pod, states))
		}
		return lines
	}
	return next, func() error { cancel(); return <-done }
}

func TestEventsOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.ExitsAfter("init", time.Second, 0)}})
		sandbox := n.sandbox(podConfig("web")) // before anybody listens: held for the first
		next, end := n.listen()
		other, endOther := n.listen()
		init := n.create(sandbox, containerConfig("init"))
		n.ok(n.StartContainer(t.Context(), init))
		time.Sleep(time.Second)
		app := n.create(sandbox, containerConfig("app"))
		n.ok(n.StartContainer(t.Context(), app))
		n.ok(n.RemoveContainer(t.Context(), init))
		n.ok(n.StopPodSandbox(t.Context(), sandbox))
		n.ok(n.RemovePodSandbox(t.Context(), sandbox))
		want := []string{
			"sandbox CREATED: READY",
			"sandbox STARTED: READY",
			"init CREATED: READY init=CREATED",
			"init STARTED: READY init=RUNNING",
			"init STOPPED: READY init=EXITED",
			"app CREATED: READY init=EXITED app=CREATED",
			"app STARTED: READY init=EXITED app=RUNNING",
			"gone DELETED: READY app=RUNNING",
			"app STOPPED: READY app=EXITED",
			"sandbox STOPPED: NOTREADY app=EXITED",
			"gone DELETED: NOTREADY",
			"sandbox DELETED: NOTREADY",
		}
		if diff := cmp.Diff(want, next()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[2:], other()); diff != "" {
			t.Errorf("second listener (-want +got):\n%s", diff)
		}
		for _, e := range []func() error{end, endOther} {
			if err := e(); status.Code(err) != codes.Canceled {
				t.Errorf("end of the stream: %v", err)
			}
		}
	})
}

func TestEventFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Events: memory.EventOptions{Unsupported: true}})
		err := n.GetContainerEvents(t.Context(), nil, nil)
		if status.Code(err) != codes.Unimplemented {
			t.Fatalf("unsupported: %v", err)
		}
		n.SetEvents(memory.EventOptions{Drop: func(e *runtimeapi.ContainerEventResponse) bool {
			return e.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
		}})
		next, end := n.listen()
		n.sandbox(podConfig("web"))
		if diff := cmp.Diff([]string{"sandbox CREATED: READY"}, next()); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		n.BreakEvents(nil)
		if err := end(); status.Code(err) != codes.Unavailable {
			t.Errorf("broken stream: %v", err)
		}
		_, end = n.listen()
		n.Down()
		if err := end(); status.Code(err) != codes.Unavailable {
			t.Errorf("runtime down: %v", err)
		}
		n.Up()
		_, end = n.listen()
		n.Shutdown()
		if err := end(); status.Code(err) != codes.Unavailable {
			t.Errorf("shutdown: %v", err)
		}
	})
}

// TestSlowEventReader: a reader that takes nothing does not stop the runtime.
func TestSlowEventReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.GetContainerEvents(ctx, make(chan *runtimeapi.ContainerEventResponse), nil) }()
		synctest.Wait()
		for range 10 {
			n.ok(n.RemovePodSandbox(t.Context(), n.sandbox(podConfig("web"))))
		}
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("end: %v", err)
		}
	})
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.ExitsAfter("app", time.Minute, 0)}})
		asked := 0
		began := time.Now()
		go n.start("web")
		n.ok(n.Await(t.Context(), func(list []memory.Container) bool {
			asked++
			return len(list) == 1 && list[0].State == exited
		}))
		if took := time.Since(began); took != time.Minute || asked > 7 {
			t.Errorf("it took %s and asked %d times", took, asked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Await(ctx, func([]memory.Container) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await what does not come: %v", err)
		}
	})
}
