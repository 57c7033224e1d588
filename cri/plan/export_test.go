package plan

import (
	"fmt"

	"github.com/podsync/sdk/podsync"
)

// Mutation is the planner with one rule of one table dropped, or two of them
// exchanged.
type Mutation struct {
	Name string
	// Same says that no input there is tells it from the planner: the tables
	// decide alike about every combination of facts.
	Same  bool
	rules tables
}

// Compute is the mutated planner.
func (m *Mutation) Compute(in Input) Actions {
	p := planner{Input: in, rules: m.rules}
	return p.compute()
}

// Mutations returns every planner that one mutation makes.
func Mutations() []Mutation {
	std := standard()
	all := mutate("sandbox", std.sandbox[:], sandboxSpace(), func(t *tables) []rule[sandboxFacts, SandboxVerdict] { return t.sandbox[:] })
	all = append(all, mutate("over", std.over[:], endSpace(), func(t *tables) []rule[endFacts, bool] { return t.over[:] })...)
	all = append(all, mutate("stray", std.stray[:], straySpace(), func(t *tables) []rule[strayFacts, KillReason] { return t.stray[:] })...)
	all = append(all, mutate("ephemeral", std.ephemeral[:], space(func(f facts) bool { return f.plain() && !f.passed }), func(t *tables) []rule[facts, decision] { return t.ephemeral[:] })...)
	all = append(all, mutate("init", std.init[:], space(func(f facts) bool { return !f.elsewhere }), func(t *tables) []rule[facts, decision] { return t.init[:] })...)
	all = append(all, mutate("sidecar", std.sidecar[:], space(func(f facts) bool { return !f.elsewhere }), func(t *tables) []rule[facts, decision] { return t.sidecar[:] })...)
	return append(all, mutate("regular", std.regular[:], space(func(f facts) bool { return !f.passed }), func(t *tables) []rule[facts, decision] { return t.regular[:] })...)
}

// mutate drops each rule, and exchanges each two rules' places and verdicts.
func mutate[F, D comparable](table string, rules []rule[F, D], space []F, of func(*tables) []rule[F, D]) []Mutation {
	var all []Mutation
	add := func(name string, change func(rs []rule[F, D])) {
		m := Mutation{Name: table + ": " + name, rules: standard(), Same: true}
		mutated := of(&m.rules)
		change(mutated)
		for _, f := range space {
			m.Same = m.Same && decide(rules, f) == decide(mutated, f)
		}
		all = append(all, m)
	}
	for i := range rules {
		add(fmt.Sprintf("%q dropped", rules[i].name), func(rs []rule[F, D]) { rs[i].when = func(F) bool { return false } })
		for j := i + 1; j < len(rules); j++ {
			add(fmt.Sprintf("%q and %q in the other order", rules[i].name, rules[j].name),
				func(rs []rule[F, D]) { rs[i], rs[j] = rs[j], rs[i] })
			add(fmt.Sprintf("%q and %q with each other's verdict", rules[i].name, rules[j].name),
				func(rs []rule[F, D]) { rs[i].then, rs[j].then = rs[j].then, rs[i].then })
		}
	}
	return all
}

func (f facts) plain() bool {
	return !f.failed && !f.restarts && !f.again && !f.changed && !f.resize && f.liveness == Unknown && f.startup == Unknown
}

// space returns all combinations of facts that can come about and are kept.
func space(keep func(facts) bool) []facts {
	var all []facts
	bit := func(n, i int) bool { return n>>i&1 == 1 }
	for n := range 1 << 8 {
		for s := podsync.ContainerCreated; s <= podsync.ContainerUnknown; s++ {
			for v := range 9 {
				f := facts{found: bit(n, 0), passed: bit(n, 1), state: s, elsewhere: bit(n, 2), again: bit(n, 3), failed: bit(n, 4),
					restarts: bit(n, 5), changed: bit(n, 6), resize: bit(n, 7), liveness: Verdict(v / 3), startup: Verdict(v % 3)}
				runs, exited := s == podsync.ContainerRunning, s == podsync.ContainerExited
				possible := f.found && (runs || !f.changed && !f.resize && v == 0) && (exited || !f.failed && !f.restarts) ||
					f == (facts{passed: f.passed})
				if possible && keep(f) {
					all = append(all, f)
				}
			}
		}
	}
	return all
}

func sandboxSpace() []sandboxFacts {
	all := []sandboxFacts{{none: true}}
	for n := range 16 {
		all = append(all, sandboxFacts{several: n&1 != 0, notReady: n&2 != 0, otherMode: n&4 != 0, noAddress: n&8 != 0})
	}
	return all
}

func endSpace() []endFacts {
	var all []endFacts
	for n := range 64 {
		all = append(all, endFacts{never: n&1 != 0, another: n&2 != 0, ran: n&4 != 0, gaveUp: n&8 != 0, starts: n&16 != 0, regular: n&32 != 0})
	}
	return all
}

func straySpace() []strayFacts {
	var all []strayFacts
	for k := Kind(0); k <= Regular; k++ {
		for n := range 8 {
			all = append(all, strayFacts{kind: k, elsewhere: n&1 != 0, unknown: n&2 != 0, newer: n&4 != 0})
		}
	}
	return all
}
