package memory

// Moment says when, in the fatal call, the power goes.
type Moment int

const (
	// Before: the call is not done.
	Before Moment = iota
	// After: the call is done, but its caller does not learn of it.
	After
)

// powerCut is an armed or tripped PowerCut.
type powerCut struct {
	remaining int // mutating calls until the cut; 0: not armed
	moment    Moment
	fatal     *Call // the call during which the power goes (After)
	tripped   bool
	done      chan struct{}
}

// PowerCut cuts the agent off at its nth mutating call, counted from now and from 1: before that call is done
// or right after, it and every other call, also those that wait, fail with Unavailable until Restore. The
// channel is closed when that has happened, so that a test can then end the agent. What the runtime itself
// runs goes on. A new PowerCut replaces an older one that has not happened.
func (r *Runtime) PowerCut(n int, m Moment) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := make(chan struct{})
	r.gate.cut = powerCut{remaining: max(n, 1), moment: m, done: done}
	r.restore()
	return done
}

// Restore ends a PowerCut, and disarms one that has not happened.
func (r *Runtime) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.cut = powerCut{}
	r.restore()
}

// refuses counts c and says whether the cut keeps it out. The lock is held.
func (p *powerCut) refuses(r *Runtime, c *Call) bool {
	switch {
	case p.tripped || p.fatal != nil:
		return true
	case p.remaining == 0 || c.Mutation == 0:
		return false
	}
	p.remaining--
	if p.remaining > 0 {
		return false
	}
	if p.moment == After {
		p.fatal = c
		return false
	}
	p.trip(r)
	return true
}

// left cuts the power when c was the fatal call. The lock is held.
func (p *powerCut) left(r *Runtime, c *Call) {
	if p.fatal == c && !p.tripped {
		p.trip(r)
	}
}

func (p *powerCut) trip(r *Runtime) {
	p.tripped = true
	close(p.done)
	r.outage()
}

// Down takes the runtime's service away, as when containerd is stopped: every call, also one that waits,
// fails with Unavailable, and event streams break. Containers run on and may end; nobody is told.
func (r *Runtime) Down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.down = true
	r.events.held = nil
	r.outage()
}

// Up ends Down. Use SetUnknown and Forget before it for what the runtime does not find again.
func (r *Runtime) Up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alarms.due(r.opt.Clock.Now())
	r.gate.down = false
	r.restore()
}
