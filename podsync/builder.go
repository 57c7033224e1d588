package podsync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slot is a stage in its place, with the options it is run by.
type slot struct {
	name     string
	stage    Stage
	deps     Deps
	timeout  time.Duration
	detached bool
	limit    int
	wraps    []Middleware
}

// Builder puts a pipeline together. Its methods record what is wrong and go on;
// Build tells all of it at once. A Builder is for one goroutine; the Pipeline
// it builds is independent of it.
type Builder struct {
	phase     Phase
	slots     []*slot
	groups    []group
	observers []Observer
	wraps     []Middleware
	given     []AnyKey
	errs      []error
}

type group struct {
	name    string
	members []string
}

// NewBuilder starts an empty pipeline for the phase.
func NewBuilder(p Phase) *Builder { return &Builder{phase: p} }

// Append adds a stage at the end.
func (b *Builder) Append(st Stage, o ...StageOption) *Builder {
	return b.insert("Append", len(b.slots), st, o)
}

// Before adds a stage in front of the named one.
func (b *Builder) Before(name string, st Stage, o ...StageOption) *Builder {
	if i, ok := b.find("Before", name); ok {
		b.insert("Before", i, st, o)
	}
	return b
}

// After adds a stage behind the named one.
func (b *Builder) After(name string, st Stage, o ...StageOption) *Builder {
	if i, ok := b.find("After", name); ok {
		b.insert("After", i+1, st, o)
	}
	return b
}

// Replace puts another stage in the place of the named one. The place keeps its
// options (Timeout, Limit, Detached, Wrap) unless they are given anew, and its
// name in the pipeline if the new stage has another: later anchors and
// Parallel go on working.
func (b *Builder) Replace(name string, st Stage, o ...StageOption) *Builder {
	i, ok := b.find("Replace", name)
	if !ok || !b.usable("Replace", st) {
		return b
	}
	sl := *b.slots[i]
	sl.stage, sl.deps = st, declared(st)
	for _, opt := range o {
		opt(&sl)
	}
	b.slots[i] = &sl
	return b
}

// Remove takes the named stage out. StageVerifyStopped cannot be removed: with
// it would go the guarantee that a terminated pod has no running container.
func (b *Builder) Remove(name string) *Builder {
	if name == StageVerifyStopped {
		b.fail("Remove(%q): this stage proves that nothing of the pod runs any more and cannot be removed", name)
		return b
	}
	if i, ok := b.find("Remove", name); ok {
		b.slots = slices.Delete(b.slots, i, i+1)
		for g := range b.groups {
			b.groups[g].members = slices.DeleteFunc(b.groups[g].members, func(m string) bool { return m == name })
		}
	}
	return b
}

// Parallel runs the named stages, which must be neighbours with no key from one
// to another, side by side. Siblings of a stage that waits or fails finish;
// Done, Reject and Fail cancel them. The highest Kind is the group's.
func (b *Builder) Parallel(name string, stages ...string) *Builder {
	if name == "" || len(stages) < 2 {
		b.fail("Parallel(%q, %q): a group needs a name and at least two stages", name, stages)
		return b
	}
	b.groups = append(b.groups, group{name: name, members: slices.Clone(stages)})
	return b
}

// Observe adds observers for every stage, those added later included.
func (b *Builder) Observe(o ...Observer) *Builder {
	b.observers = append(b.observers, o...)
	return b
}

// Use adds middleware around every stage, the first outermost.
func (b *Builder) Use(m ...Middleware) *Builder {
	b.wraps = append(b.wraps, m...)
	return b
}

// Given declares keys that whoever runs the pipeline sets beforehand.
func (b *Builder) Given(k ...AnyKey) *Builder {
	b.given = append(b.given, k...)
	return b
}

// Has tells whether the builder holds a stage of that name.
func (b *Builder) Has(name string) bool {
	return slices.ContainsFunc(b.slots, func(sl *slot) bool { return sl.name == name })
}

func (b *Builder) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *Builder) usable(verb string, st Stage) bool {
	switch {
	case st == nil:
		b.fail("%s: the stage is nil", verb)
	case st.Name() == "":
		b.fail("%s: a stage of type %T has an empty name; give it one, with a domain for a site's own: \"example.com/name\"", verb, st)
	default:
		return true
	}
	return false
}

func (b *Builder) find(verb, name string) (int, bool) {
	for i, sl := range b.slots {
		if sl.name == name {
			return i, true
		}
	}
	b.fail("%s(%q): the %s pipeline has no such stage; it has %s", verb, name, b.phase, quoted(b.names()))
	return 0, false
}

func (b *Builder) names() []string {
	n := make([]string, len(b.slots))
	for i, sl := range b.slots {
		n[i] = sl.name
	}
	return n
}

func (b *Builder) insert(verb string, at int, st Stage, o []StageOption) *Builder {
	if !b.usable(verb, st) {
		return b
	}
	sl := &slot{name: st.Name(), stage: st, deps: declared(st)}
	for _, opt := range o {
		opt(sl)
	}
	b.slots = slices.Insert(b.slots, at, sl)
	return b
}

func declared(st Stage) Deps {
	if d, ok := st.(Declarer); ok {
		return d.Declare()
	}
	return Deps{}
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "no stages"
	}
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}

// Build checks the whole and returns the immutable pipeline, or all mistakes
// joined in one error. It can be called again after further changes.
func (b *Builder) Build() (*Pipeline, error) {
	errs := slices.Clone(b.errs)
	errs = append(errs, b.checkNames()...)
	spans, groupErrs := b.checkGroups()
	errs = append(errs, groupErrs...)
	errs = append(errs, b.checkKeys(spans)...)
	for _, sl := range b.slots {
		if sl.detached && sl.timeout == 0 {
			errs = append(errs, fmt.Errorf("stage %q is Detached without a Timeout; add podsync.Timeout(d), or a stuck run holds the pod for ever", sl.name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%s pipeline: %w", b.phase, err)
	}
	return newPipeline(b, spans), nil
}

func (b *Builder) checkNames() (errs []error) {
	seen := map[string]bool{}
	for _, sl := range b.slots {
		if seen[sl.name] {
			errs = append(errs, fmt.Errorf("two stages are named %q; rename one, or use Replace(%q, …) to put one in the other's place", sl.name, sl.name))
		}
		seen[sl.name] = true
	}
	return errs
}

// span is a group's place: slots[from:to].
type span struct {
	name     string
	from, to int
}

func (b *Builder) checkGroups() (spans []span, errs []error) {
	taken := map[string]string{}
	for _, g := range b.groups {
		if len(g.members) < 2 {
			continue // Remove left one alone: it runs as any other stage
		}
		sp, err := b.place(g)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, m := range g.members {
			if other, ok := taken[m]; ok {
				errs = append(errs, fmt.Errorf("stage %q is in two groups, %q and %q; leave it in one", m, other, g.name))
			}
			taken[m] = g.name
		}
		spans = append(spans, sp)
	}
	slices.SortFunc(spans, func(x, y span) int { return x.from - y.from })
	return spans, errs
}

func (b *Builder) place(g group) (span, error) {
	first, last := len(b.slots), -1
	for _, m := range g.members {
		i := slices.IndexFunc(b.slots, func(sl *slot) bool { return sl.name == m })
		if i < 0 {
			return span{}, fmt.Errorf("group %q names %q, which the pipeline does not have; it has %s", g.name, m, quoted(b.names()))
		}
		first, last = min(first, i), max(last, i)
	}
	for i := first; i <= last; i++ {
		if !slices.Contains(g.members, b.slots[i].name) {
			return span{}, fmt.Errorf("group %q is split at %q, which stands between its members; put it Before(%q), After(%q) or into the group",
				g.name, b.slots[i].name, b.slots[first].name, b.slots[last].name)
		}
	}
	if last-first+1 != len(g.members) {
		return span{}, fmt.Errorf("group %q names a stage twice: %s", g.name, quoted(g.members))
	}
	return span{name: g.name, from: first, to: last + 1}, nil
}

func (b *Builder) checkKeys(spans []span) (errs []error) {
	provider := map[AnyKey]int{}
	for _, k := range b.given {
		provider[k] = -1
	}
	groupOf := func(i int) int {
		return slices.IndexFunc(spans, func(sp span) bool { return sp.from <= i && i < sp.to })
	}
	for i, sl := range b.slots {
		for _, k := range sl.deps.Needs {
			p, ok := provider[k]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("stage %q needs %s, which no earlier stage provides; %s", sl.name, k.Name(), b.remedy(i, k)))
			case p >= 0 && groupOf(i) >= 0 && groupOf(p) == groupOf(i):
				errs = append(errs, fmt.Errorf("stage %q needs %s of stage %q, which runs beside it in group %q; take one of them out of the group",
					sl.name, k.Name(), b.slots[p].name, spans[groupOf(i)].name))
			}
		}
		for _, k := range sl.deps.Provides {
			if p, ok := provider[k]; ok && !k.manyWriters() {
				errs = append(errs, fmt.Errorf("stage %q provides %s, which %s provides already; a Key has one writer, use a List for more", sl.name, k.Name(), b.providerName(p)))
				continue
			}
			provider[k] = i
		}
	}
	return errs
}

func (b *Builder) providerName(i int) string {
	if i < 0 {
		return "Given"
	}
	return fmt.Sprintf("stage %q", b.slots[i].name)
}

// remedy says what cures a missing key.
func (b *Builder) remedy(at int, k AnyKey) string {
	for _, sl := range b.slots[at+1:] {
		if slices.Contains(sl.deps.Provides, k) {
			return fmt.Sprintf("stage %q does, but later: put it before %q", sl.name, b.slots[at].name)
		}
	}
	var by string
	switch k {
	case CgroupParent:
		by = "cgroups.Ensure"
	case PodDirs:
		by = "volumes.Dirs"
	case PodVolumes:
		by = "volumes.Mounted"
	case PullSecrets, MissingPullSecrets:
		by = "images.PullSecrets"
	default:
		return fmt.Sprintf("add the stage that provides it before %q, or Given(%s) if the caller sets it", b.slots[at].name, k.Name())
	}
	return fmt.Sprintf("add %s before it", by)
}
