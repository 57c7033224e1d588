package images

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// backoffKey is what a backoff is kept for.
type backoffKey struct {
	uid   types.UID
	image string
}

// backoff is the state of one image of one pod that could not be pulled.
type backoff struct {
	delay   time.Duration
	until   time.Time
	reason  string
	message string
}

// BackoffState is the backoff of one image of one pod, for a store.
type BackoffState struct {
	// UID is the pod's, Image as its spec has it.
	UID   types.UID `json:"uid"`
	Image string    `json:"image"`
	// Delay is the time between the failed pull and Until, when the next one may
	// be tried; the pull after that waits twice as long.
	Delay time.Duration `json:"delay"`
	Until time.Time     `json:"until"`
	// Reason and Message are those of the failed pull.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// current returns the backoff of an image, and whether it is in force at now.
func (p *Puller) current(k backoffKey, now time.Time) (b backoff, waiting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.backoffs[k]; e != nil {
		return *e, now.Before(e.until)
	}
	return backoff{}, false
}

// failed records a failed pull that began when the backoff was before: of two
// containers that waited for one pull only the first makes it longer. It
// returns the time until the next try.
func (p *Puller) failed(k backoffKey, before backoff, reason, message string) time.Duration {
	now := p.o.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.backoffs[k]
	if e != nil && !e.until.Equal(before.until) && now.Before(e.until) {
		return e.until.Sub(now)
	}
	delay := p.o.InitialBackoff
	if e != nil && now.Sub(e.until) < 2*p.o.MaxBackoff {
		delay = min(2*e.delay, p.o.MaxBackoff)
	}
	p.backoffs[k] = &backoff{delay: delay, until: now.Add(delay), reason: reason, message: message}
	return delay
}

// Forget drops the backoff of a pod that is gone.
func (p *Puller) Forget(uid types.UID) { p.Reset(uid, "") }

// Reset drops the backoff of one image of a pod, so that the next Ensure pulls
// at once: for a pull secret that changed, or an operator's wish. image "" is
// every image of the pod.
func (p *Puller) Reset(uid types.UID, image string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if image != "" {
		delete(p.backoffs, backoffKey{uid, image})
		return
	}
	for k := range p.backoffs {
		if k.uid == uid {
			delete(p.backoffs, k)
		}
	}
}

// State returns the backoffs that are remembered, sorted by UID and image.
// Those so old that they would start over are dropped.
func (p *Puller) State() []BackoffState {
	now := p.o.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]BackoffState, 0, len(p.backoffs))
	for k, e := range p.backoffs {
		if now.Sub(e.until) >= 2*p.o.MaxBackoff {
			delete(p.backoffs, k)
			continue
		}
		list = append(list, BackoffState{k.uid, k.image, e.delay, e.until, e.reason, e.message})
	}
	slices.SortFunc(list, func(a, b BackoffState) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Image, b.Image))
	})
	return list
}

// Restore puts back what State returned before a restart. What is too old is
// dropped, and a clock that was set back does not make a pod wait longer than
// MaxBackoff from now. It does not replace what happened since.
func (p *Puller) Restore(states []BackoffState) {
	now := p.o.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range states {
		k := backoffKey{s.UID, s.Image}
		if p.backoffs[k] != nil || now.Sub(s.Until) >= 2*p.o.MaxBackoff {
			continue
		}
		delay := min(max(s.Delay, p.o.InitialBackoff), p.o.MaxBackoff)
		until := s.Until
		if latest := now.Add(delay); until.After(latest) {
			until = latest
		}
		p.backoffs[k] = &backoff{delay, until, s.Reason, s.Message}
	}
}
