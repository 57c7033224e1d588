package critest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// events: each step of a container's life comes as an event that names the
// container and, as long as there is a sandbox, the pod.
func events(k *kit) {
	ctx, cancel := context.WithCancel(k.Context())
	defer cancel()
	ch := make(chan *runtimeapi.ContainerEventResponse, 64)
	opened := make(chan struct{})
	ended := make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- k.rt.GetContainerEvents(ctx, ch, func(runtimeapi.RuntimeService_GetContainerEventsClient) { once.Do(func() { close(opened) }) })
		close(ch)
	}()
	timer := time.NewTimer(k.b.Patience)
	defer timer.Stop()
	if k.b.NoEvents {
		select {
		case err := <-ended:
			if status.Code(err) != codes.Unimplemented {
				k.Errorf("GetContainerEvents: %v, want Unimplemented", err)
			}
		case <-timer.C:
			k.Errorf("GetContainerEvents is not refused within %v", k.b.Patience)
		}
		return
	}
	select {
	case <-opened:
	case err := <-ended:
		k.Fatalf("GetContainerEvents: %v", err)
	case <-timer.C:
		k.Fatalf("the event stream is not open after %v", k.b.Patience)
	}
	p := k.pod()
	sandbox := k.sandbox(p)
	id := k.start(sandbox, k.container("main", k.b.Run...), p)
	k.must("StopContainer", k.rt.StopContainer(k.Context(), id, 20))
	k.must("RemoveContainer", k.rt.RemoveContainer(k.Context(), id))
	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	var got []runtimeapi.ContainerEventType
	for len(got) < len(want) {
		select {
		case ev := <-ch:
			if ev.GetContainerId() != id {
				continue // of another pod, or of the sandbox
			}
			got = append(got, ev.ContainerEventType)
			if ev.ContainerEventType != runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT && ev.GetPodSandboxStatus().GetMetadata().GetUid() != p.Metadata.Uid {
				k.Errorf("event %v does not say whose it is: %v", ev.ContainerEventType, ev)
			}
		case <-timer.C:
			k.Fatalf("events %v after %v, want %v", got, k.b.Patience, want)
		}
	}
	if !slices.Equal(got, want) {
		k.Errorf("events %v, want %v", got, want)
	}
	cancel()
	// The sender may wait for room in the channel.
	for {
		select {
		case _, more := <-ch:
			if !more {
				return
			}
		case <-timer.C:
			k.Fatal("GetContainerEvents does not end with its context")
		}
	}
}

// notFound: the calls whose NotFound the SDK acts on.
func notFound(k *kit) {
	none := strings.Repeat("0", 64)
	ctx := k.Context()
	p := k.pod()
	sandbox := k.sandbox(p)
	for _, tt := range []struct {
		name string
		call func() error
		// mayBeFine: nothing to do is no error either.
		mayBeFine bool
	}{
		{"PodSandboxStatus", func() error { _, err := k.rt.PodSandboxStatus(ctx, none, false); return err }, false},
		{"ContainerStatus", func() error { _, err := k.rt.ContainerStatus(ctx, none, false); return err }, false},
		{"StartContainer", func() error { return k.rt.StartContainer(ctx, none) }, false},
		{"ExecSync", func() error { _, _, err := k.rt.ExecSync(ctx, none, []string{"true"}, time.Second); return err }, false},
		{"StopContainer", func() error { return k.rt.StopContainer(ctx, none, 1) }, true},
		{"RemoveContainer", func() error { return k.rt.RemoveContainer(ctx, none) }, true},
		{"StopPodSandbox", func() error { return k.rt.StopPodSandbox(ctx, none) }, true},
		{"RemovePodSandbox", func() error { return k.rt.RemovePodSandbox(ctx, none) }, true},
		{"ContainerStatus of a sandbox", func() error { _, err := k.rt.ContainerStatus(ctx, sandbox, false); return err }, false},
	} {
		if err := tt.call(); !crierrors.IsNotFound(err) && !(err == nil && tt.mayBeFine) {
			k.Errorf("%s of an id that does not exist: %v, want NotFound", tt.name, err)
		}
	}
}

// endedContext: no call does anything, or blocks, for a caller who has gone.
func endedContext(k *kit) {
	p := k.pod()
	sandbox := k.sandbox(p)
	c := k.container("main", k.b.Run...)
	id := k.start(sandbox, c, p)
	ctx, cancel := context.WithCancel(k.Context())
	cancel()
	other := k.pod()
	second := k.container("second", k.b.Run...)
	for name, call := range map[string]func() error{
		"Version":          func() error { _, err := k.rt.Version(ctx, "v1"); return err },
		"Status":           func() error { _, err := k.rt.Status(ctx, false); return err },
		"RunPodSandbox":    func() error { _, err := k.rt.RunPodSandbox(ctx, other, ""); return err },
		"StopPodSandbox":   func() error { return k.rt.StopPodSandbox(ctx, sandbox) },
		"RemovePodSandbox": func() error { return k.rt.RemovePodSandbox(ctx, sandbox) },
		"ListPodSandbox":   func() error { _, err := k.rt.ListPodSandbox(ctx, nil); return err },
		"PodSandboxStatus": func() error { _, err := k.rt.PodSandboxStatus(ctx, sandbox, false); return err },
		"CreateContainer":  func() error { _, err := k.rt.CreateContainer(ctx, sandbox, second, p); return err },
		"StopContainer":    func() error { return k.rt.StopContainer(ctx, id, 600) },
		"RemoveContainer":  func() error { return k.rt.RemoveContainer(ctx, id) },
		"ListContainers":   func() error { _, err := k.rt.ListContainers(ctx, nil); return err },
		"ContainerStatus":  func() error { _, err := k.rt.ContainerStatus(ctx, id, false); return err },
		"ExecSync":         func() error { _, _, err := k.rt.ExecSync(ctx, id, []string{"true"}, time.Second); return err },
		"ImageStatus": func() error {
			_, err := k.im.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: k.b.Image}, false)
			return err
		},
		"PullImage": func() error {
			_, err := k.im.PullImage(ctx, &runtimeapi.ImageSpec{Image: k.b.Image}, nil, nil)
			return err
		},
	} {
		if err := k.within(k.b.Patience, name, call); err == nil {
			k.Errorf("%s under a context that has ended gave no error", name)
		}
	}
	if s := k.status(id); s.State != running {
		k.Errorf("the container is %v after calls under a context that had ended", s.State)
	}
	if l := k.sandboxes(&runtimeapi.PodSandboxFilter{LabelSelector: other.Labels}); len(l) != 0 {
		k.drop(l[0].Id)
		k.Errorf("a sandbox was made under a context that had ended")
	}
}

func manyAtOnce(k *kit) {
	k.pulled()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p := k.pod()
			sandbox, err := k.rt.RunPodSandbox(k.Context(), p, "")
			if err != nil {
				k.Errorf("RunPodSandbox: %v", err)
				return
			}
			defer k.drop(sandbox)
			c := &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Image: &runtimeapi.ImageSpec{Image: k.b.Image}, Command: k.b.Run,
				Linux: &runtimeapi.LinuxContainerConfig{},
			}
			id, err := k.rt.CreateContainer(k.Context(), sandbox, c, p)
			if err == nil {
				err = k.rt.StartContainer(k.Context(), id)
			}
			if err == nil {
				err = k.rt.StopContainer(k.Context(), id, 20)
			}
			if err != nil {
				k.Errorf("container of %s: %v", p.Metadata.Name, err)
			}
		})
	}
	wg.Wait()
}
