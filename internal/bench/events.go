package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// events knows, from the runtime's event stream, when containers began to run. The time is the runtime's own
// (startedAt), so that it does not matter how long it takes to hear of it, and looking costs next to nothing.
type events struct {
	mu      sync.Mutex
	started map[types.UID]time.Time // by pod: of its container, not of its sandbox
	news    chan struct{}           // closed when there are some
	err     error
}

// watch follows the event stream until ctx ends, and returns when it is open. done is closed when it is over.
func watch(ctx context.Context, rt internalapi.RuntimeService) (e *events, done <-chan struct{}, err error) {
	e = &events{started: map[types.UID]time.Time{}, news: make(chan struct{})}
	stream := make(chan *runtimeapi.ContainerEventResponse, 1024)
	open, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stream)
		err := rt.GetContainerEvents(ctx, stream, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(open) })
		e.fail(fmt.Errorf("event stream of the runtime ended: %w", err))
	}()
	go func() {
		defer close(over)
		for ev := range stream {
			e.take(ev)
		}
	}()
	select {
	case <-open:
		return e, over, nil
	case <-over:
		return nil, over, e.err
	}
}

func (e *events) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	e.tell()
}

func (e *events) tell() {
	close(e.news)
	e.news = make(chan struct{})
}

func (e *events) take(ev *runtimeapi.ContainerEventResponse) {
	if ev.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT {
		return
	}
	for _, c := range ev.GetContainersStatuses() {
		if c.GetId() != ev.GetContainerId() || c.GetStartedAt() == 0 {
			continue
		}
		e.mu.Lock()
		e.started[types.UID(ev.GetPodSandboxStatus().GetMetadata().GetUid())] = time.Unix(0, c.GetStartedAt())
		e.tell()
		e.mu.Unlock()
	}
}

// wait waits until a container of each of the pods runs, and returns when the last began to.
func (e *events) wait(ctx context.Context, uids []types.UID) (last time.Time, err error) {
	for {
		e.mu.Lock()
		n := 0
		for _, uid := range uids {
			if at, ok := e.started[uid]; ok {
				n++
				if at.After(last) {
					last = at
				}
			}
		}
		news, failed := e.news, e.err
		e.mu.Unlock()
		switch {
		case n == len(uids):
			return last, nil
		case failed != nil:
			return last, failed
		}
		select {
		case <-news:
		case <-ctx.Done():
			return last, fmt.Errorf("%d of %d pods run: %w", n, len(uids), context.Cause(ctx))
		}
	}
}

// forget drops what is known of pods.
func (e *events) forget(uids []types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, uid := range uids {
		delete(e.started, uid)
	}
}
