package images

import (
	"context"
	"crypto/sha256"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// flightKey is what makes two pulls the same one.
type flightKey struct {
	image, handler string
	login          [sha256.Size]byte
}

// flight is a pull that runs, for everybody who wants the same.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int
	// The result, once done is closed.
	ref  string
	took time.Duration
	err  error
}

// share pulls an image, or joins the same pull if it runs already. The pull
// goes on while anybody waits for it, whoever began it; the last one to leave
// ends it and sees it out.
func (p *Puller) share(ctx context.Context, spec *runtimeapi.ImageSpec, cred *Credential, sandbox *runtimeapi.PodSandboxConfig) (*flight, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := flightKey{image: spec.GetImage(), handler: spec.GetRuntimeHandler()}
	var auth *runtimeapi.AuthConfig
	if cred != nil {
		k.login, auth = cred.identity(), cred.auth
	}
	p.mu.Lock()
	f := p.flights[k]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		var fctx context.Context
		fctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		p.flights[k] = f
		go p.fly(fctx, k, f, spec, auth, sandbox)
	}
	f.waiters++
	p.mu.Unlock()

	select {
	case <-f.done:
		return f, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	if last {
		f.cancel()
		p.land(k, f)
	}
	p.mu.Unlock()
	if last {
		<-f.done
	}
	return nil, ctx.Err()
}

// fly runs one pull once a slot is free.
func (p *Puller) fly(ctx context.Context, k flightKey, f *flight, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) {
	defer close(f.done)
	defer f.cancel()
	select {
	case p.slots <- struct{}{}:
		start := p.o.Clock.Now()
		if p.o.PullTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, p.o.PullTimeout)
			defer cancel()
		}
		f.ref, f.err = p.o.Service.PullImage(ctx, spec, auth, sandbox)
		f.took = p.o.Clock.Since(start)
		<-p.slots
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	p.mu.Lock()
	p.land(k, f)
	p.mu.Unlock()
}

// land takes a flight off the board, so that nobody joins it any more. The
// caller holds p.mu.
func (p *Puller) land(k flightKey, f *flight) {
	if p.flights[k] == f {
		delete(p.flights, k)
	}
}
