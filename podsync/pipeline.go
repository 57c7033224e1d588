package podsync

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// undoLimit bounds the undoing of one admission, all stages together.
const undoLimit = 10 * time.Second

// Pipeline is the stages of one phase in their order. It is immutable, safe for
// concurrent use by different pods, and itself a Stage.
type Pipeline struct {
	phase     Phase
	places    []place
	steps     []step
	observers []Observer
	given     []AnyKey
}

// place is a slot made ready to run.
type place struct {
	*slot
	info StageInfo
	run  StageFunc
	// undo is nil unless the stage can be undone.
	undo Undoer
	// prompt is nil unless the stage can say that a run will not block.
	prompt Prompt
	// sem holds a token for each pod in the stage; nil without a limit.
	sem chan struct{}
}

// step is one stage, or a group of them: places[from:to].
type step struct {
	group    string
	from, to int
}

var (
	_ Stage    = (*Pipeline)(nil)
	_ Declarer = (*Pipeline)(nil)
	_ Undoer   = (*Pipeline)(nil)
)

func newPipeline(b *Builder, spans []span) *Pipeline {
	p := &Pipeline{phase: b.phase, observers: slices.Clone(b.observers), given: slices.Clone(b.given)}
	for i, sl := range b.slots {
		c := *sl
		if b.phase == PhaseAdmit && c.timeout == 0 {
			c.timeout = admitTimeout
		}
		pl := place{slot: &c, info: StageInfo{Phase: b.phase, Name: sl.name, Index: i}}
		pl.undo, _ = sl.stage.(Undoer)
		pl.run = sl.stage.Run
		wraps := slices.Concat(b.wraps, sl.wraps)
		for _, m := range slices.Backward(wraps) {
			pl.run = m(pl.info, pl.run)
		}
		if len(wraps) == 0 && sl.limit == 0 {
			pl.prompt, _ = sl.stage.(Prompt)
		}
		if sl.limit > 0 {
			pl.sem = make(chan struct{}, sl.limit)
		}
		p.places = append(p.places, pl)
	}
	for i := 0; i < len(p.places); {
		st := step{from: i, to: i + 1}
		for _, sp := range spans {
			if sp.from == i {
				st = step{group: sp.name, from: sp.from, to: sp.to}
			}
		}
		p.steps = append(p.steps, st)
		i = st.to
	}
	return p
}

// Name returns the phase's name: a pipeline can stand in another as a stage.
func (p *Pipeline) Name() string { return string(p.phase) }

// Phase returns the phase that the pipeline serves.
func (p *Pipeline) Phase() Phase { return p.phase }

// Stages returns the names of the stages in order.
func (p *Pipeline) Stages() []string {
	n := make([]string, len(p.places))
	for i := range p.places {
		n[i] = p.places[i].name
	}
	return n
}

// Declare returns what the pipeline as a whole needs (the keys given to it) and
// provides (those of all its stages).
func (p *Pipeline) Declare() Deps {
	d := Deps{Needs: slices.Clone(p.given)}
	for _, pl := range p.places {
		d.Provides = append(d.Provides, pl.deps.Provides...)
	}
	return d
}

// Run runs the stages in order until one stops, and returns its outcome. When
// none does the outcome is Continue, with the shortest Again asked for. In the
// admit phase whatever stops the run but Done undoes, in reverse, what the
// stages before did.
func (p *Pipeline) Run(ctx context.Context, s *Sync) Outcome {
	views := make([]Sync, len(p.places))
	for i := range views {
		views[i] = Sync{run: s.run, writer: p.places[i].slot}
	}
	s.run.startTrace(p)
	res := Outcome{}
	for _, st := range p.steps {
		var o Outcome
		if st.to-st.from == 1 {
			o = p.runPlace(ctx, &p.places[st.from], &views[st.from])
		} else {
			o = p.runGroup(ctx, st, views)
		}
		if o.Stops() {
			if p.phase == PhaseAdmit && o.Kind() != KindDone {
				p.undo(ctx, views[:st.to])
			}
			return o
		}
		if o.again {
			res = res.Again(o.after)
		}
	}
	return res
}

func (p *Pipeline) runGroup(ctx context.Context, st step, views []Sync) Outcome {
	gctx := newLateContext(ctx)
	defer gctx.cancel(nil)
	outs := make([]Outcome, st.to-st.from)
	run := func(i int) {
		o := p.runPlace(gctx, &p.places[st.from+i], &views[st.from+i])
		if o.Kind() >= KindDone {
			gctx.cancel(ErrSibling)
		}
		outs[i] = o
	}
	// One of those that may block runs here, the others get goroutines; those
	// that will not block run here while the others are under way.
	var wg sync.WaitGroup
	here, prompt := -1, make([]int, 0, 8)
	for i := range outs {
		switch pl := &p.places[st.from+i]; {
		case pl.prompt != nil && isPrompt(pl.prompt, &views[st.from+i]):
			prompt = append(prompt, i)
		case here < 0:
			here = i
		default:
			wg.Go(func() { growStack(i); run(i) })
		}
	}
	for _, i := range prompt {
		run(i)
	}
	if here >= 0 {
		run(here)
	}
	wg.Wait()
	res := outs[0]
	for _, o := range outs[1:] {
		res = merge(res, o)
	}
	return res
}

// isPrompt asks the stage; one that panics is not prompt, and Run's panic is told.
func isPrompt(st Prompt, v *Sync) (prompt bool) {
	defer func() {
		if recover() != nil {
			prompt = false
		}
	}()
	return st.Prompt(v)
}

// merge joins the outcomes of two stages that ran side by side: the higher kind
// wins, Waits and Agains are joined to the sooner, Retries to both errors.
func merge(a, b Outcome) Outcome {
	if b.kind > a.kind {
		a, b = b, a
	}
	switch {
	case a.kind <= KindSkip:
		if b.again {
			a = a.Again(b.after)
		}
		if a.kind == KindSkip && b.kind == KindContinue {
			a.kind, a.reason = KindContinue, ""
		}
	case a.kind != b.kind:
	case a.kind == KindWait:
		a.wake = append(a.wake[:len(a.wake):len(a.wake)], b.wake...)
		if b.after > 0 && (a.after == 0 || b.after < a.after) {
			a.after = b.after
		}
	case a.kind == KindRetry:
		a.err = errors.Join(a.err, b.err)
		if b.again && (!a.again || b.after < a.after) {
			a.after, a.again = b.after, true
		}
	}
	return a
}

func (p *Pipeline) runPlace(ctx context.Context, pl *place, v *Sync) Outcome {
	if ctx.Err() != nil {
		return p.stamp(pl, canceled(context.Cause(ctx)))
	}
	if pl.sem != nil {
		select {
		case pl.sem <- struct{}{}:
			defer func() { <-pl.sem }()
		case <-ctx.Done():
			return p.stamp(pl, canceled(context.Cause(ctx)))
		}
	}
	start := time.Now()
	run := ctx
	var own *lateContext
	if pl.detached || pl.timeout > 0 {
		own = newStageContext(ctx, pl.detached, start, pl.timeout)
		defer own.cancel(nil)
		ctx = own
	}
	var ends []func(Outcome)
	for _, ob := range p.observers {
		var end func(Outcome)
		if ctx, end = ob(ctx, pl.info, v); end != nil {
			ends = append(ends, end)
		}
	}
	o := p.stamp(pl, p.settle(run, own, pl, contained(ctx, pl, v)))
	v.run.trace.add(pl.name, start, o)
	for _, end := range slices.Backward(ends) {
		end(o)
	}
	return o
}

// contained runs the stage and turns a panic into a Retry.
func contained(ctx context.Context, pl *place, v *Sync) (o Outcome) {
	defer func() {
		if r := recover(); r != nil {
			err := &PanicError{Stage: pl.name, Value: r, Stack: debug.Stack()}
			v.Logger().ErrorContext(ctx, "stage panicked", "value", fmt.Sprint(r), "stack", string(err.Stack))
			o = Retry(err)
		}
	}()
	return pl.run(ctx, v)
}

// settle makes an outcome honest about why a stage stopped: an end of the run's
// own context is Canceled whatever the stage made of it, a stage's own time-out
// is Retry, and what the phase cannot grant becomes Retry.
// own is the stage's context, nil when it is the run's.
func (p *Pipeline) settle(run context.Context, own *lateContext, pl *place, o Outcome) Outcome {
	switch o.kind {
	case KindRetry, KindCanceled:
		if own != nil {
			run = own.unlimited()
		}
		if run.Err() != nil {
			return canceled(errors.Join(context.Cause(run), o.err))
		}
		if pl.timeout > 0 && own.Err() != nil {
			return Retry(&TimeoutError{Stage: pl.name, After: pl.timeout, Err: o.err})
		}
		if o.kind == KindCanceled {
			return Retry(fmt.Errorf("stage %q gave up although its run was not canceled: %w", pl.name, o.err))
		}
	case KindReject, KindFail:
		if p.phase == PhaseTerminating || p.phase == PhaseTerminated {
			return Retry(fmt.Errorf("stage %q may not give up a pod that is being stopped: %w", pl.name, o.Err()))
		}
	default:
	}
	return o
}

func (p *Pipeline) stamp(pl *place, o Outcome) Outcome {
	if o.stage == "" {
		o.stage = pl.name
	}
	return o
}

// Undo takes back what the pipeline's stages did for a pod that was admitted
// and now leaves the node, in reverse order. All are tried; errors are joined.
func (p *Pipeline) Undo(ctx context.Context, s *Sync) error {
	views := make([]Sync, len(p.places))
	for i := range views {
		views[i] = Sync{run: s.run, writer: p.places[i].slot}
	}
	return p.undo(ctx, views)
}

func (p *Pipeline) undo(ctx context.Context, views []Sync) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	var errs []error
	for i := len(views) - 1; i >= 0; i-- {
		pl := &p.places[i]
		if pl.undo == nil {
			continue
		}
		if err := p.undoPlace(ctx, pl, &views[i]); err != nil {
			errs = append(errs, fmt.Errorf("undo stage %q of pod %s: %w", pl.name, views[i].Ref(), err))
		}
	}
	return errors.Join(errs...)
}

func (p *Pipeline) undoPlace(ctx context.Context, pl *place, v *Sync) (err error) {
	info := pl.info
	info.Undo = true
	var ends []func(Outcome)
	for _, ob := range p.observers {
		var end func(Outcome)
		if ctx, end = ob(ctx, info, v); end != nil {
			ends = append(ends, end)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Stage: pl.name, Value: r, Stack: debug.Stack()}
		}
		if err != nil {
			v.Logger().ErrorContext(ctx, "undo failed", "err", err)
		}
		for _, end := range slices.Backward(ends) {
			end(p.stamp(pl, Retry(err)))
		}
	}()
	return pl.undo.Undo(ctx, v)
}

// String returns the pipeline in one line, groups in parentheses:
// "sync: status > network > (volumes | pull-secrets) > runtime".
func (p *Pipeline) String() string {
	parts := make([]string, len(p.steps))
	for i, st := range p.steps {
		var names []string
		for _, pl := range p.places[st.from:st.to] {
			names = append(names, pl.name)
		}
		parts[i] = strings.Join(names, " | ")
		if len(names) > 1 {
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return string(p.phase) + ": " + strings.Join(parts, " > ")
}

// WriteDOT writes the pipeline as a Graphviz digraph: the stages in their order,
// groups as clusters, and dashed arrows for the keys between stages.
func (p *Pipeline) WriteDOT(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n\trankdir=LR;\n\tnode [shape=box];\n", string(p.phase))
	for i, st := range p.steps {
		if st.group != "" {
			fmt.Fprintf(&b, "\tsubgraph \"cluster_%s\" {\n\t\tlabel=%q;\n", st.group, st.group)
			for _, pl := range p.places[st.from:st.to] {
				fmt.Fprintf(&b, "\t\t%q;\n", pl.name)
			}
			b.WriteString("\t}\n")
		}
		if i == 0 {
			continue
		}
		for _, from := range p.places[p.steps[i-1].from:p.steps[i-1].to] {
			for _, to := range p.places[st.from:st.to] {
				fmt.Fprintf(&b, "\t%q -> %q;\n", from.name, to.name)
			}
		}
	}
	for i, to := range p.places {
		for _, k := range to.deps.Needs {
			for _, from := range p.places[:i] {
				if slices.Contains(from.deps.Provides, k) {
					fmt.Fprintf(&b, "\t%q -> %q [style=dashed, constraint=false, label=%q];\n", from.name, to.name, k.Name())
				}
			}
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
