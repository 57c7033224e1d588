package memory

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// heldFor is how long events wait for a first subscriber, as in containerd.
	heldFor = 5 * time.Minute
	// maxQueued bounds the events that wait for one reader, maxHeld those that wait for the first.
	maxQueued = 1 << 15
	maxHeld   = 1 << 11
)

// EventOptions set what is wrong with the event stream. The zero value is a stream like containerd's.
type EventOptions struct {
	// Unsupported makes GetContainerEvents answer Unimplemented, as containerd 1.6 does.
	Unsupported bool
	// Drop loses the events for which it is true. It is called with the Runtime locked and may not call it.
	Drop func(*runtimeapi.ContainerEventResponse) bool
}

// events is the stream's state. The lock of the Runtime guards it.
type events struct {
	opt  EventOptions
	subs []*subscriber
	held []*runtimeapi.ContainerEventResponse // while nobody listens
}

// subscriber is one open stream.
type subscriber struct {
	queue  []*runtimeapi.ContainerEventResponse
	wake   chan struct{} // one token
	broken chan struct{}
	err    error // why, once broken
}

func (s *subscriber) put(e *runtimeapi.ContainerEventResponse) {
	if len(s.queue) >= maxQueued {
		s.fail(status.Error(codes.ResourceExhausted, "event stream: reader too slow"))
		return
	}
	s.queue = append(s.queue, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) fail(err error) {
	if s.err == nil {
		s.err = err
		close(s.broken)
	}
}

// SetEvents changes the event stream's settings. Unsupported does not end streams that are open: BreakEvents.
func (r *Runtime) SetEvents(o EventOptions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.opt = o
}

// BreakEvents ends every open event stream with err; nil means Unavailable.
func (r *Runtime) BreakEvents(err error) {
	if err == nil {
		err = ErrReplyLost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.events.subs {
		s.fail(err)
	}
}

// emit sends one event with the state of the whole pod, as containerd 2.x does. The lock is held.
func (r *Runtime) emit(s *sandbox, id string, kind runtimeapi.ContainerEventType) {
	r.change()
	if r.gate.down || r.gate.shut || r.events.opt.Unsupported {
		return
	}
	e := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: r.opt.Clock.Now().UnixNano()}
	if r.state.sandboxes[s.id] == s {
		e.PodSandboxStatus = s.status()
	}
	for _, c := range s.containers {
		e.ContainersStatuses = append(e.ContainersStatuses, r.statusOf(c))
	}
	if r.events.opt.Drop != nil && r.events.opt.Drop(e) {
		return
	}
	if len(r.events.subs) == 0 {
		if len(r.events.held) >= maxHeld {
			r.events.held = append(r.events.held[:0], r.events.held[maxHeld/2:]...)
		}
		r.events.held = append(r.events.held, e)
		return
	}
	for i, sub := range r.events.subs {
		if i > 0 {
			e = proto.CloneOf(e) // readers may keep and change what they get
		}
		sub.put(e)
	}
}

// stream sends events until ctx ends, the stream breaks, or send fails.
func (r *Runtime) stream(ctx context.Context, opened func(), send func(*runtimeapi.ContainerEventResponse) error) error {
	sub, out, err := r.subscribe()
	if err != nil {
		return err
	}
	defer r.unsubscribe(sub)
	if opened != nil {
		opened()
	}
	for {
		select {
		case <-ctx.Done():
			return contextError(ctx)
		case <-out:
			return errUnavailable()
		case <-sub.broken:
			return sub.err
		case <-sub.wake:
		}
		r.mu.Lock()
		batch := sub.queue
		sub.queue = nil
		r.mu.Unlock()
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
	}
}

func (r *Runtime) subscribe() (*subscriber, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events.opt.Unsupported {
		return nil, nil, status.Error(codes.Unimplemented, "unknown method GetContainerEvents for service runtime.v1.RuntimeService")
	}
	sub := &subscriber{wake: make(chan struct{}, 1), broken: make(chan struct{})}
	oldest := r.opt.Clock.Now().Add(-heldFor).UnixNano()
	for _, e := range r.events.held {
		if e.CreatedAt >= oldest {
			sub.put(e)
		}
	}
	r.events.held = nil
	r.events.subs = append(r.events.subs, sub)
	return sub, r.gate.out, nil
}

func (r *Runtime) unsubscribe(sub *subscriber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.subs = without(r.events.subs, sub)
}
