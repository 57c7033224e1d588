package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Input is what Compute decides by. Nothing in it is changed or kept.
type Input struct {
	// Pod is the pod to bring about, defaulted. Required.
	Pod *corev1.Pod
	// Runtime is what the runtime holds of it; nil is nothing.
	Runtime *podsync.RuntimePod
	// Hashes are the hashes of the pod's containers as their annotations would
	// carry them: the init containers', then the regular containers', in the
	// order of the spec (see Hashes). Nil leaves changes of the spec unseen.
	Hashes []uint64
	// Probes are the verdicts of liveness and startup probes; nil says that
	// nothing probes, and then Runtime.Probes and the containers' state decide.
	Probes Probes
	// Terminating says that the pod is being stopped: nothing is started then.
	// A deletionTimestamp says the same.
	Terminating bool
}

// Probes tells what the probes of an instance found. Safe for concurrent use.
type Probes interface {
	// Liveness and Startup return the verdict for the instance of that id,
	// Unknown while there is none.
	Liveness(containerID string) Verdict
	Startup(containerID string) Verdict
}

// Verdict is what a probe found.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota
	Success
	Failure
)

// Kind is which list of the pod spec a container stands in.
type Kind uint8

// The kinds of container, in the order in which they are started.
const (
	Ephemeral Kind = iota + 1
	Init
	Sidecar
	Regular
)

// String returns the kind's name: "ephemeral", "init", "sidecar", "regular".
func (k Kind) String() string {
	switch k {
	case Ephemeral:
		return "ephemeral"
	case Init:
		return "init"
	case Sidecar:
		return "sidecar"
	case Regular:
		return "regular"
	}
	return "unknown"
}

// Start is a container to start.
type Start struct {
	// Kind and Index say where it stands: for Init and Sidecar the index is that
	// in spec.initContainers.
	Kind  Kind
	Index int
	// Name is its name.
	Name string
}

// KillReason says why a container is killed. It decides the grace (see Grace).
type KillReason string

// The reasons to kill a container.
const (
	KillPodOver         KillReason = "PodOver"
	KillSandboxChanged  KillReason = "SandboxChanged"
	KillSpecChanged     KillReason = "SpecChanged"
	KillLiveness        KillReason = "LivenessProbe"
	KillStartup         KillReason = "StartupProbe"
	KillUnknownState    KillReason = "UnknownState"
	KillDuplicate       KillReason = "Duplicate"
	KillOtherSandbox    KillReason = "OtherSandbox"
	KillNotInSpec       KillReason = "NotInSpec"
	KillRestartAll      KillReason = "RestartAllContainers"
	KillResized         KillReason = "Resized"
	KillPostStartFailed KillReason = "FailedPostStartHook"
)

// Kill is an instance to stop.
type Kill struct {
	// ID is the instance's, Name the container's.
	ID, Name string
	// Reason says why, Message says it to people.
	Reason  KillReason
	Message string
}

// Remove is a dead or never started instance to remove.
type Remove struct {
	// ID is the instance's, Name the container's.
	ID, Name string
}

// Actions is a plan: what to do, in this order: Kill (all at once, by
// StopOrder when KillPod is set), Remove (in order), StopSandboxes,
// CreateSandbox, Resize (in order), Start (in order). A container whose kill or removal failed
// must not be started; other containers are not concerned.
type Actions struct {
	// Sandbox says what is wrong with the sandbox.
	Sandbox SandboxVerdict
	// CreateSandbox asks for a new sandbox with this Attempt.
	CreateSandbox bool
	// SandboxID is the sandbox that is kept, or else the one that is given up;
	// "" when there was none or its network mode was the wrong one.
	SandboxID string
	// Attempt is the number of the sandbox to create.
	Attempt uint32
	// KillPod says that everything of the pod is to stop: because the sandbox is
	// replaced (CreateSandbox) or because the pod is over. It stays true when
	// there is nothing left to kill.
	KillPod bool
	// Initialized says that the init containers are through.
	Initialized bool
	// RestartAll says that an exit asked to begin from the first init container
	// again; Source is the container it was.
	RestartAll bool
	Source     string

	Kill          []Kill
	Remove        []Remove
	StopSandboxes []string
	Start         []Start

	// Resize are the running instances whose resources are changed in place:
	// memory before CPU, of each what shrinks before what grows.
	Resize []Resize
	// ResizePod says that the pod's resources as a whole are not what the sandbox
	// was last told: because of Resize, of a kill with KillResized, or of the
	// pod-level resources.
	ResizePod bool
}

// Nothing tells whether there is nothing to do.
func (a *Actions) Nothing() bool {
	return !a.CreateSandbox && !a.ResizePod && len(a.Kill)+len(a.Remove)+len(a.StopSandboxes)+len(a.Start)+len(a.Resize) == 0
}

// Over tells whether the pod has come to its end: nothing of it runs or will.
func (a *Actions) Over() bool { return a.KillPod && !a.CreateSandbox }

// Hashes fills Input.Hashes by calling hash for each init container and each
// regular container of the pod.
func Hashes(pod *corev1.Pod, hash func(*corev1.Container) uint64) []uint64 {
	hs := make([]uint64, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		hs = append(hs, hash(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		hs = append(hs, hash(&pod.Spec.Containers[i]))
	}
	return hs
}

// Compute decides what to do next for the pod.
func Compute(in Input) Actions {
	p := planner{Input: in, rules: standard()}
	return p.compute()
}

// compute decides by the planner's rules.
func (p *planner) compute() Actions {
	if p.Runtime == nil {
		p.Runtime = &podsync.RuntimePod{}
	}
	if p.Terminating || p.Pod.DeletionTimestamp != nil {
		return Actions{}
	}
	p.sandbox()
	if p.act.CreateSandbox {
		p.newSandbox()
		return p.act
	}
	if p.restartAll() {
		return p.act
	}
	p.strays()
	p.ephemeral()
	p.act.Initialized = p.initContainers()
	if p.act.Initialized && !p.act.KillPod {
		p.regular()
	}
	if p.act.KillPod {
		p.killPod(KillPodOver, messagePodOver)
		return p.act
	}
	p.resizePod()
	return p.act
}

// planner holds the input and the plan that grows.
type planner struct {
	Input
	rules tables
	act   Actions
}

// hash returns the hash that the i-th container of init and regular containers
// should carry, and whether it is known.
func (p *planner) hash(i int) (uint64, bool) {
	if i < len(p.Hashes) {
		return p.Hashes[i], true
	}
	return 0, false
}

// changed tells whether an instance was made of another spec.
func (p *planner) changed(i int, c *podsync.RuntimeContainer) bool {
	want, known := p.hash(i)
	return known && (!c.HashKnown || c.Hash != want)
}

func (p *planner) start(k Kind, i int, name string) {
	p.act.Start = append(p.act.Start, Start{Kind: k, Index: i, Name: name})
}

// apply plans what was decided about a container. r is the instance that it was
// judged by, nil if there was none.
func (p *planner) apply(d decision, k Kind, i int, name string, r *podsync.RuntimeContainer) {
	if d.kill != "" {
		p.kill(r, d.kill, killMessage(d, k, name))
	}
	if d.remove {
		p.act.Remove = append(p.act.Remove, Remove{ID: r.ID, Name: r.Name})
	}
	if d.start {
		p.start(k, i, name)
	}
}

const messagePodOver = "Stopping the pod: no container of it is to run any more"

// killMessage says to people why a container is killed.
func killMessage(d decision, k Kind, name string) string {
	who := "Container " + name
	if k != Regular {
		who = "Init container " + name
	}
	var why string
	switch d.kill {
	case KillUnknownState:
		return who + " is in unknown state, try killing it before restart"
	case KillSpecChanged:
		why = " definition changed"
	case KillLiveness:
		why = " failed liveness probe"
	case KillStartup:
		why = " failed startup probe"
	case KillResized:
		why = " gets other resources and its resizePolicy wants a restart"
	}
	if d.start {
		why += ", will be restarted"
	}
	return who + why
}

// kill plans to stop an instance, once.
func (p *planner) kill(c *podsync.RuntimeContainer, r KillReason, msg string) {
	for i := range p.act.Kill {
		if p.act.Kill[i].ID == c.ID {
			return
		}
	}
	p.act.Kill = append(p.act.Kill, Kill{ID: c.ID, Name: c.Name, Reason: r, Message: msg})
}

// killPod turns the plan into one that stops all of the pod.
func (p *planner) killPod(r KillReason, msg string) {
	p.act.Start, p.act.Remove, p.act.Kill, p.act.Resize = nil, nil, nil, nil
	for _, c := range p.Runtime.Containers {
		if couldRun(c) {
			p.kill(c, r, msg)
		}
	}
	for _, s := range p.Runtime.Sandboxes {
		// Before a new sandbox is made all older ones are stopped, those that are
		// not ready too: a half-made one may hold an address.
		if p.act.CreateSandbox || s.Ready {
			p.act.StopSandboxes = append(p.act.StopSandboxes, s.ID)
		}
	}
}

func couldRun(c *podsync.RuntimeContainer) bool {
	return c.State == podsync.ContainerRunning ||
		c.State == podsync.ContainerUnknown
}

// instance returns the instance that a container is judged by: one that runs,
// or else the newest. With a sandbox given only that sandbox's count.
func (p *planner) instance(name, sandbox string) *podsync.RuntimeContainer {
	var newest *podsync.RuntimeContainer
	for _, c := range p.Runtime.Containers {
		if c.Name != name || sandbox != "" && c.SandboxID != sandbox {
			continue
		}
		if c.Running() {
			return c
		}
		if newest == nil {
			newest = c
		}
	}
	return newest
}
