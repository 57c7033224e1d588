package podsync

import (
	"errors"
	"fmt"
	"io"
)

// Plan is the pipelines of all four phases while they are put together. A nil
// builder is an empty pipeline.
type Plan struct {
	Admit, Sync, Terminating, Terminated *Builder
}

// Component is a feature with stages in several phases.
type Component interface {
	// Install adds the feature's stages to the plan.
	Install(p *Plan)
}

// Install adds components, in order, and returns the plan.
func (p *Plan) Install(cs ...Component) *Plan {
	p.fill()
	for _, c := range cs {
		if c == nil {
			p.Sync.fail("Install: the component is nil")
			continue
		}
		c.Install(p)
	}
	return p
}

// Observe adds observers to all four pipelines and returns the plan.
func (p *Plan) Observe(o ...Observer) *Plan {
	p.fill()
	for _, b := range p.builders() {
		b.Observe(o...)
	}
	return p
}

func (p *Plan) fill() {
	for _, f := range []struct {
		b  **Builder
		ph Phase
	}{{&p.Admit, PhaseAdmit}, {&p.Sync, PhaseSync}, {&p.Terminating, PhaseTerminating}, {&p.Terminated, PhaseTerminated}} {
		if *f.b == nil {
			*f.b = NewBuilder(f.ph)
		}
	}
}

func (p *Plan) builders() []*Builder {
	return []*Builder{p.Admit, p.Sync, p.Terminating, p.Terminated}
}

// Pipelines is a built Plan.
type Pipelines struct {
	Admit, Sync, Terminating, Terminated *Pipeline
}

// Build builds all four pipelines and returns all mistakes joined.
func (p *Plan) Build() (*Pipelines, error) {
	p.fill()
	var ps Pipelines
	var errs []error
	for i, dst := range []**Pipeline{&ps.Admit, &ps.Sync, &ps.Terminating, &ps.Terminated} {
		b := p.builders()[i]
		if want := [...]Phase{PhaseAdmit, PhaseSync, PhaseTerminating, PhaseTerminated}[i]; b.phase != want {
			errs = append(errs, fmt.Errorf("the plan's %s pipeline was made by NewBuilder(%q)", want, b.phase))
			continue
		}
		pl, err := b.Build()
		errs = append(errs, err)
		*dst = pl
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &ps, nil
}

func (ps *Pipelines) of(ph Phase) *Pipeline {
	switch ph {
	case PhaseAdmit:
		return ps.Admit
	case PhaseTerminating:
		return ps.Terminating
	case PhaseTerminated:
		return ps.Terminated
	default:
		return ps.Sync
	}
}

// String returns the four pipelines, a line each.
func (ps *Pipelines) String() string {
	return ps.Admit.String() + "\n" + ps.Sync.String() + "\n" + ps.Terminating.String() + "\n" + ps.Terminated.String()
}

// WriteDOT writes the four pipelines as Graphviz digraphs, one after another.
func (ps *Pipelines) WriteDOT(w io.Writer) error {
	for _, p := range []*Pipeline{ps.Admit, ps.Sync, ps.Terminating, ps.Terminated} {
		if err := p.WriteDOT(w); err != nil {
			return err
		}
	}
	return nil
}
