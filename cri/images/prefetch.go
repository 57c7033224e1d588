package images

import (
	"context"
	"sync"
)

// Prefetch is a set of pulls in flight for one pod. Safe for concurrent use.
type Prefetch struct {
	puller *Puller
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	results map[prefetchKey]*prefetched
}

type prefetchKey struct{ container, image string }

type prefetched struct {
	done chan struct{}
	img  Image
	err  error
}

// Prefetch begins to ensure the images of a pod's containers in the background,
// so that they come while the sandbox is made. Images asked for twice are
// pulled once. The caller must Close it; the end of ctx ends the pulls too.
func (p *Puller) Prefetch(ctx context.Context, reqs []Request) *Prefetch {
	ctx, cancel := context.WithCancel(ctx)
	f := &Prefetch{puller: p, cancel: cancel, results: make(map[prefetchKey]*prefetched, len(reqs))}
	for _, r := range reqs {
		k := prefetchKey{r.Container, r.Image}
		if f.results[k] != nil {
			continue
		}
		res := &prefetched{done: make(chan struct{})}
		f.results[k] = res
		f.wg.Go(func() {
			defer close(res.done)
			res.img, res.err = p.Ensure(ctx, r)
		})
	}
	return f
}

// Ensure returns the result of the prefetched pull of r's container and image,
// waiting for it if need be, and does what Puller.Ensure does when there is
// none, or when it was cut short. A result is handed out once per container.
func (f *Prefetch) Ensure(ctx context.Context, r Request) (Image, error) {
	k := prefetchKey{r.Container, r.Image}
	f.mu.Lock()
	res := f.results[k]
	delete(f.results, k)
	f.mu.Unlock()
	if res == nil {
		return f.puller.Ensure(ctx, r)
	}
	select {
	case <-res.done:
	case <-ctx.Done():
		return Image{}, ctx.Err()
	}
	if isCanceled(res.err) && ctx.Err() == nil {
		return f.puller.Ensure(ctx, r)
	}
	return res.img, res.err
}

// Close ends the pulls that still run and waits until nothing of it does. It
// may be called more than once, and on nil.
func (f *Prefetch) Close() {
	if f == nil {
		return
	}
	f.cancel()
	f.wg.Wait()
}
