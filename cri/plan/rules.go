package plan

import "github.com/podsync/sdk/podsync"

// rule is a row of a decision table. Of a table the first rule whose condition
// holds decides; where none holds the zero decision is taken. Conditions are
// functions of facts alone, so that a table can be read, and tried, by itself.
type rule[F, D any] struct {
	name string
	when func(F) bool
	then D
}

// decide returns what the first rule that holds says.
func decide[F, D any](rules []rule[F, D], f F) (d D) {
	for i := range rules {
		if rules[i].when(f) {
			return rules[i].then
		}
	}
	return d
}

// tables are the rules of the planner, a table for each question.
type tables struct {
	sandbox   [5]rule[sandboxFacts, SandboxVerdict]
	over      [3]rule[endFacts, bool]
	stray     [4]rule[strayFacts, KillReason]
	ephemeral [2]rule[facts, decision]
	init      [9]rule[facts, decision]
	sidecar   [11]rule[facts, decision]
	regular   [13]rule[facts, decision]
}

// standard returns the planner's rules.
func standard() tables {
	return tables{
		sandbox: sandboxRules(), over: overRules(), stray: strayRules(), ephemeral: ephemeralRules(),
		init: initRules(), sidecar: sidecarRules(), regular: regularRules(),
	}
}

// sandboxFacts is what decides about the sandbox of a pod.
type sandboxFacts struct {
	none, several, notReady, otherMode, noAddress bool
}

func sandboxRules() [5]rule[sandboxFacts, SandboxVerdict] {
	return [...]rule[sandboxFacts, SandboxVerdict]{
		{"none", func(f sandboxFacts) bool { return f.none }, SandboxMissing},
		{"several ready", func(f sandboxFacts) bool { return f.several }, SandboxSeveral},
		{"newest not ready", func(f sandboxFacts) bool { return f.notReady }, SandboxNotReady},
		{"network mode", func(f sandboxFacts) bool { return f.otherMode }, SandboxNetMode},
		{"no address", func(f sandboxFacts) bool { return f.noAddress }, SandboxNoAddress},
	}
}

// endFacts is what decides whether a pod that has no usable sandbox has come to
// its end.
type endFacts struct {
	never   bool // restartPolicy Never
	another bool // the sandbox would not be the first
	ran     bool // a container has ever run
	gaveUp  bool // an init container failed for good
	starts  bool // a regular container is to run
	regular bool // the runtime has an instance of a regular container
}

func overRules() [3]rule[endFacts, bool] {
	return [...]rule[endFacts, bool]{
		{"an init container failed for good", func(f endFacts) bool { return f.gaveUp }, true},
		{"Never runs in one sandbox", func(f endFacts) bool { return f.never && f.another && f.ran }, true},
		{"nothing to start again", func(f endFacts) bool { return !f.starts && f.regular }, true},
	}
}

// strayFacts is what decides about an instance that may run.
type strayFacts struct {
	kind      Kind // 0: the pod does not name it
	elsewhere bool // in another sandbox
	unknown   bool // its state is not known
	newer     bool // another instance of its container is the one that counts
}

func strayRules() [4]rule[strayFacts, KillReason] {
	return [...]rule[strayFacts, KillReason]{
		{"not in the spec", func(f strayFacts) bool { return f.kind == 0 }, KillNotInSpec},
		{"in another sandbox", func(f strayFacts) bool { return f.elsewhere }, KillOtherSandbox},
		{"ephemeral of unknown state", func(f strayFacts) bool { return f.kind == Ephemeral && f.unknown }, ""},
		{"one of several", func(f strayFacts) bool { return f.newer }, KillDuplicate},
	}
}

// facts is what decides about a container of a pod whose sandbox is kept.
type facts struct {
	found     bool // there is an instance to judge it by
	state     podsync.ContainerState
	elsewhere bool // the instance is in another sandbox
	failed    bool // it exited and failed (init containers)
	restarts  bool // policy and rules start it again after how it exited
	again     bool // the policy starts it again after it was killed
	changed   bool // it was made of another spec
	resize    bool // its resources changed, and a change of those wants a restart
	liveness  Verdict
	startup   Verdict // Success when it counts as started
	passed    bool    // a container that is started later was found (init)
}

// decision is what to do about a container.
type decision struct {
	kill    KillReason // "" does not
	start   bool       // start it, after the kill
	remove  bool       // remove the instance, which was never started
	keep    bool       // it goes on running (regular)
	through bool       // what comes after it may start (init)
	giveUp  bool       // the pod is over (init)
}

func (f facts) created() bool { return f.found && f.state == podsync.ContainerCreated }
func (f facts) exited() bool  { return f.state == podsync.ContainerExited }
func (f facts) unknown() bool { return f.state == podsync.ContainerUnknown }

func ephemeralRules() [2]rule[facts, decision] {
	return [...]rule[facts, decision]{
		{"never made", func(f facts) bool { return !f.found }, decision{start: true}},
		{"never started", func(f facts) bool { return f.created() && !f.elsewhere }, decision{remove: true, start: true}},
	}
}

// The rules of the regular containers of an initialised pod. How a container
// exited, or that nobody knows, is looked at whatever sandbox it was in; what
// runs in another sandbox is killed as a stray.
func regularRules() [13]rule[facts, decision] {
	return [...]rule[facts, decision]{
		{"never made", func(f facts) bool { return !f.found }, decision{start: true}},
		{"never started", facts.created, decision{remove: true, start: true}},
		{"exited, restarts", func(f facts) bool { return f.exited() && f.restarts }, decision{start: true}},
		{"exited", facts.exited, decision{}},
		// It is killed before the next one is made, whatever the policy, because
		// nobody knows that it exited either.
		{"unknown", facts.unknown, decision{kill: KillUnknownState, start: true}},
		{"runs elsewhere", func(f facts) bool { return f.elsewhere }, decision{keep: true}},
		{"spec changed", func(f facts) bool { return f.changed }, decision{kill: KillSpecChanged, start: true}},
		{"liveness failed, restarts", func(f facts) bool { return f.liveness == Failure && f.again }, decision{kill: KillLiveness, start: true}},
		{"liveness failed", func(f facts) bool { return f.liveness == Failure }, decision{kill: KillLiveness}},
		{"startup failed, restarts", func(f facts) bool { return f.startup == Failure && f.again }, decision{kill: KillStartup, start: true}},
		{"startup failed", func(f facts) bool { return f.startup == Failure }, decision{kill: KillStartup}},
		{"resized, wants a restart", func(f facts) bool { return f.resize }, decision{kill: KillResized, start: true}},
		{"runs", func(facts) bool { return true }, decision{keep: true}},
	}
}

// The rules of plain init containers, seen from the last to the first.
func initRules() [9]rule[facts, decision] {
	return [...]rule[facts, decision]{
		{"never made, or removed since", func(f facts) bool { return !f.found }, decision{}},
		{"a later one was found", func(f facts) bool { return f.passed }, decision{}},
		{"never started", facts.created, decision{remove: true, start: true}},
		{"failed, restarts", func(f facts) bool { return f.exited() && f.failed && f.restarts }, decision{start: true}},
		{"failed", func(f facts) bool { return f.exited() && f.failed }, decision{giveUp: true}},
		{"succeeded", facts.exited, decision{through: true}},
		{"unknown, restarts", func(f facts) bool { return f.unknown() && f.again }, decision{kill: KillUnknownState, start: true}},
		{"unknown", facts.unknown, decision{giveUp: true}},
		// Even when its spec changed: it is left to end by itself.
		{"runs", func(facts) bool { return true }, decision{}},
	}
}

// The rules of sidecars, seen from the last to the first. They run whatever the
// pod's policy is.
func sidecarRules() [11]rule[facts, decision] {
	return [...]rule[facts, decision]{
		{"missing below a later one", func(f facts) bool { return !f.found && f.passed }, decision{start: true}},
		{"not made yet", func(f facts) bool { return !f.found }, decision{}},
		{"never started", facts.created, decision{remove: true, start: true}},
		{"exited", facts.exited, decision{start: true}},
		{"unknown", facts.unknown, decision{kill: KillUnknownState, start: true}},
		{"startup failed", func(f facts) bool { return f.startup == Failure }, decision{kill: KillStartup, start: true}},
		{"not started up yet", func(f facts) bool { return f.startup == Unknown }, decision{}},
		{"spec changed", func(f facts) bool { return f.changed }, decision{kill: KillSpecChanged, start: true, through: true}},
		{"liveness failed", func(f facts) bool { return f.liveness == Failure }, decision{kill: KillLiveness, start: true, through: true}},
		{"resized, wants a restart", func(f facts) bool { return f.resize }, decision{kill: KillResized, start: true, through: true}},
		{"runs", func(facts) bool { return true }, decision{through: true}},
	}
}
