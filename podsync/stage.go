package podsync

import "context"

// Phase is the part of a pod's life that a pipeline serves. A pod goes through
// them in this order and never back.
type Phase string

// The four phases.
const (
	// PhaseAdmit decides once whether the node takes the pod.
	PhaseAdmit Phase = "admit"
	// PhaseSync brings the pod to its desired state, again and again.
	PhaseSync Phase = "sync"
	// PhaseTerminating stops what runs.
	PhaseTerminating Phase = "terminating"
	// PhaseTerminated gives back what a stopped pod still holds.
	PhaseTerminated Phase = "terminated"
)

// Names of the SDK's own stages: the anchors of Before, After, Replace and Remove.
const (
	// Admit phase.
	StageSysctls      = "sysctls"
	StageOS           = "os"
	StageNodeSelector = "node-selector"
	StageTaints       = "taints"
	StageHostPorts    = "host-ports"
	StageResources    = "resources"

	// Sync phase.
	StageStatus      = "status"
	StageNetwork     = "network"
	StageCgroup      = "cgroup"
	StageDirs        = "dirs"
	StageVolumes     = "volumes"
	StagePullSecrets = "pull-secrets"
	StageRuntime     = "runtime"

	// Terminating phase, after StageStatus.
	StageStopContainers = "stop-containers"
	StageVerifyStopped  = "verify-stopped"
	StageFinalStatus    = "final-status"

	// Terminated phase, before StageFinalStatus.
	StageUnmount      = "unmount"
	StageCgroupRemove = "cgroup-remove"
)

// Stage is one step of bringing a pod to its desired state. One value serves
// every pod, so Run must be safe for concurrent use by different pods; for one
// pod it is never called twice at a time.
type Stage interface {
	// Name identifies the stage within its pipeline. A site's own stages carry a
	// domain: "example.com/license". It must not change.
	Name() string
	// Run does this step for one pod. It is called again after a crash or an
	// error, at any point, and must then find out what is already done and do
	// only the rest. It must return soon after ctx ends; context.Cause(ctx) says
	// why it did. It must not change s.Pod().
	Run(ctx context.Context, s *Sync) Outcome
}

// Deps declares which state a stage reads and writes.
type Deps struct {
	// Needs are the keys that an earlier stage must provide, or the agent.
	Needs []AnyKey
	// Provides are the keys that the stage writes. A Key has one provider.
	Provides []AnyKey
}

// Declarer is a Stage that declares its needs and provisions; Build checks them.
type Declarer interface {
	// Declare is called once, at build.
	Declare() Deps
}

// Undoer is a Stage of the admit phase that can take back what it did.
type Undoer interface {
	// Undo takes back what Run did for this pod. It is called in reverse order
	// for every stage that ran, whenever admission stops before its end, Wait
	// included, and once more when an admitted pod leaves the node. It must be
	// idempotent; its context is not that of the run and has a limit of its own.
	Undo(ctx context.Context, s *Sync) error
}

// Prompt is a Stage that can tell when its Run will return at once. In a group
// such a stage gets no goroutine for that run: to start one and wait for it
// costs more than most runs of a pod that is as it should be.
type Prompt interface {
	// Prompt reports whether Run would neither block nor do I/O for this pod
	// now. It must not do so either; in doubt it returns false. It is called
	// right before Run, and not for a stage with a Limit or in a Middleware.
	Prompt(s *Sync) bool
}

// StageFunc is the Run of a stage as a function.
type StageFunc func(ctx context.Context, s *Sync) Outcome

// NewStage makes a stage of a function that neither needs nor provides keys.
func NewStage(name string, run StageFunc) Stage { return NewStageWith(name, Deps{}, run) }

// NewStageWith makes a stage of a function and what it declares.
func NewStageWith(name string, d Deps, run StageFunc) Stage {
	return &funcStage{name: name, deps: d, run: run}
}

type funcStage struct {
	name string
	deps Deps
	run  StageFunc
}

func (f *funcStage) Name() string                             { return f.name }
func (f *funcStage) Declare() Deps                            { return f.deps }
func (f *funcStage) Run(ctx context.Context, s *Sync) Outcome { return f.run(ctx, s) }

// StageInfo says which stage of which pipeline is meant.
type StageInfo struct {
	// Phase is the pipeline's.
	Phase Phase
	// Name is the stage's.
	Name string
	// Index is its place in the pipeline, from 0.
	Index int
	// Undo is true where the stage's Undo is meant rather than its Run.
	Undo bool
}
