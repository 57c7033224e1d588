package manifest

import (
	"context"
	"errors"
	"sync"
)

// RunPortable is Run with the notifier of systems that do not report closes.
func (d *Dir) RunPortable(ctx context.Context, changed func([]File)) error {
	f := d.follower()
	f.watch = newFSNotifier
	return f.run(ctx, changed)
}

// RunUnwatched is Run where nothing can be watched.
func (d *Dir) RunUnwatched(ctx context.Context, changed func([]File)) error {
	f := d.follower()
	f.watch = func(string) (notifier, error) { return nil, errors.New("no watches left") }
	return f.run(ctx, changed)
}

// Deaf is a notifier that hears nothing but what a test tells it.
type Deaf struct {
	mu sync.Mutex
	ns []*deaf
}

type deaf struct{ ch chan event }

func (n *deaf) events() <-chan event { return n.ch }
func (n *deaf) closesReported() bool { return true }
func (n *deaf) close()               {}

// Run is Run with this notifier.
func (h *Deaf) Run(ctx context.Context, d *Dir, changed func([]File)) error {
	f := d.follower()
	f.watch = func(string) (notifier, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		n := &deaf{make(chan event)}
		h.ns = append(h.ns, n)
		return n, nil
	}
	return f.run(ctx, changed)
}

// Lose tells the last one made that events were lost, as the kernel does when
// its queue is full; Die ends it.
func (h *Deaf) Lose() { h.last().ch <- event{op: opLost} }

// Die closes the events of the last one made.
func (h *Deaf) Die() { close(h.last().ch) }

func (h *Deaf) last() *deaf {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ns[len(h.ns)-1]
}
