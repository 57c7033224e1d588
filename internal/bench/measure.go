package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/remote"
	"github.com/podsync/sdk/internal/realruntime"
)

// Parts of a measurement.
const (
	partStart = "start"
	partBurst = "burst"
	partIdle  = "idle"
)

// rest is the pause after each pod that is started alone, so that what one side does after its pod has come up
// is not counted against the other.
const rest = 100 * time.Millisecond

// bench is a measurement under way.
type bench struct {
	options
	*progress
	floor  *floor
	agent  *agent
	node   *realruntime.Containerd
	remote *remote.Remote
	r      *results
}

// measure starts everything, measures, and removes everything.
func measure(ctx context.Context, o options, p *progress, r *results) (err error) {
	cleanup := context.WithoutCancel(ctx)
	registry, err := realruntime.StartRegistry(ctx, realruntime.RegistryConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Stop(cleanup)) }()
	image := registry.Image("pause:3.10")
	node, err := realruntime.Start(ctx, realruntime.Config{SandboxImage: image})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Stop(cleanup)) }()
	dir := filepath.Join(node.Root(), "bench") // goes with it, even when this process is killed
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, progress: p, node: node, r: r}
	if b.remote, err = remote.Dial(ctx, remote.Options{Endpoint: node.Endpoint()}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.remote.Close(cleanup)) }()
	ev, over, err := watch(ctx, b.remote.Runtime())
	if err != nil {
		return err
	}
	id, err := b.remote.Images().PullImage(ctx, &runtimeapi.ImageSpec{Image: image}, nil, nil)
	if err != nil {
		return fmt.Errorf("pull %s: %w", image, err)
	}
	b.floor = &floor{runtime: b.remote.Runtime(), events: ev, image: id, dir: filepath.Join(dir, "floor"), cgroup: node.CgroupRoot() + "/floor"}
	b.agent = &agent{events: ev, image: image, dir: filepath.Join(dir, "agent")}
	if o.agent == "" {
		p.say("building the agent")
		o.agent = filepath.Join(dir, "edgeagent")
		if err := buildAgent(ctx, o.agent); err != nil {
			return err
		}
	}
	defer func() { b.agent.stop(cleanup) }()
	if err := startAgent(ctx, o, node, b.agent); err != nil {
		return err
	}
	p.say("containerd at %s, agent with PID %d", node.Endpoint(), b.agent.process.PID())
	err = b.rounds(ctx)
	select {
	case <-over:
		if ctx.Err() == nil {
			err = errors.Join(err, ev.err)
		}
	default:
	}
	return err
}

// rounds measures everything as often as asked for. The time at rest is measured once, because it takes long.
func (b *bench) rounds(ctx context.Context) error {
	for n := range b.options.rounds {
		if b.only == "" || b.only == partStart {
			if err := b.starts(ctx, n); err != nil {
				return err
			}
		}
		if b.only == "" || b.only == partBurst {
			if err := b.bursts(ctx, n); err != nil {
				return err
			}
		}
	}
	if b.only == "" || b.only == partIdle {
		return b.atRest(ctx)
	}
	return nil
}

// starts starts pods one after another, one by the floor, one by the agent, and so on.
func (b *bench) starts(ctx context.Context, round int) error {
	pods, err := b.floor.prepare(b.single)
	if err != nil {
		return err
	}
	uids, err := b.agent.prepare(b.single)
	if err != nil {
		return err
	}
	defer b.floor.teardown(ctx, pods, 8)
	for i := range b.single {
		var took [2]time.Duration
		one := func(side int) (err error) {
			if side == 0 {
				took[0], err = b.floor.one(ctx, pods[i])
			} else {
				took[1], err = b.agent.start(ctx, uids[i:i+1])
			}
			return errors.Join(err, pause(ctx, rest))
		}
		first := (round + i) % 2
		if err := errors.Join(one(first), one(1-first)); err != nil {
			return err
		}
		b.r.startFloor = append(b.r.startFloor, ms(took[0]))
		b.r.startOurs = append(b.r.startOurs, ms(took[1]))
	}
	b.say("round %d of %d: one pod after another: floor %.0f ms, agent %.0f ms", round+1, b.options.rounds,
		median(b.r.startFloor), median(b.r.startOurs))
	_, err = b.agent.remove(ctx, uids)
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// bursts starts and removes many pods at once: the floor with each number of calls in flight, in later rounds
// with the two that were best, and the agent among them.
func (b *bench) bursts(ctx context.Context, round int) error {
	levels := b.levels
	if round > 0 {
		levels = b.r.bestLevels(2)
	}
	at := (round + len(levels)) / 2 % len(levels)
	for i, level := range levels {
		if i == at {
			if err := b.burstOurs(ctx, round); err != nil {
				return err
			}
		}
		if err := b.burstFloor(ctx, round, level); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) burstFloor(ctx context.Context, round, level int) error {
	pods, err := b.floor.prepare(b.pods)
	if err != nil {
		return err
	}
	used := b.cpu()
	up, err := b.floor.burst(ctx, pods, level)
	cost := used()
	down, downErr := b.floor.teardown(ctx, pods, level)
	if err := errors.Join(err, downErr); err != nil {
		return err
	}
	b.r.addFloor(level, up, down)
	b.say("round %d of %d: burst of %d: floor with %2d in flight %.1f pods/s, removed at %.1f pods/s; %s", round+1, b.options.rounds, b.pods, level, up, down, cost)
	return b.calm(ctx)
}

// calm lets what a burst left behind, in the runtime and in the kernel, come to an end.
func (b *bench) calm(ctx context.Context) error { return pause(ctx, 500*time.Millisecond) }

func (b *bench) burstOurs(ctx context.Context, round int) error {
	uids, err := b.agent.prepare(b.pods)
	if err != nil {
		return err
	}
	used := b.cpu()
	took, err := b.agent.start(ctx, uids)
	if err != nil {
		return err
	}
	cost := used()
	up := float64(b.pods) / took.Seconds()
	if took, err = b.agent.remove(ctx, uids); err != nil {
		return err
	}
	down := float64(b.pods) / took.Seconds()
	b.r.burstOurs, b.r.removeOurs = append(b.r.burstOurs, up), append(b.r.removeOurs, down)
	b.say("round %d of %d: burst of %d: agent %.1f pods/s, removed at %.1f pods/s; %s", round+1, b.options.rounds, b.pods, up, down, cost)
	return errors.Join(b.noneLeft(ctx), b.calm(ctx))
}

// cpu says, when what it returns is called, how much CPU time a pod of a burst has taken meanwhile. Of containerd
// it is that of the daemon, without shims, runc and the CNI plugins, which are the same for both sides.
func (b *bench) cpu() func() string {
	read := func() (agent, containerd time.Duration) {
		agent, _ = cpuTime(b.agent.process.PID()) // a remark beside the figures
		containerd, _ = cpuTime(b.node.PID())
		return agent, containerd
	}
	a, c := read()
	return func() string {
		agent, containerd := read()
		n := float64(b.pods)
		return fmt.Sprintf("CPU a pod: agent %.1f ms, containerd %.1f ms", ms(agent-a)/n, ms(containerd-c)/n)
	}
}

// noneLeft makes sure that a teardown was one.
func (b *bench) noneLeft(ctx context.Context) error {
	boxes, err := b.remote.Runtime().ListPodSandbox(ctx, nil)
	if err != nil {
		return err
	}
	if len(boxes) > 0 {
		return fmt.Errorf("after the agent removed its pods: %w: %d", errLeft, len(boxes))
	}
	return nil
}

// atRest measures what the agent costs while many pods run and nothing happens.
func (b *bench) atRest(ctx context.Context) error {
	uids, err := b.agent.prepare(b.pods)
	if err != nil {
		return err
	}
	if _, err := b.agent.start(ctx, uids); err != nil {
		return err
	}
	b.say("at rest with %d pods: %s to settle, %s to measure", b.pods, b.settle, b.idle)
	if err := pause(ctx, b.settle); err != nil {
		return err
	}
	before, err := cpuTime(b.agent.process.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, b.idle); err != nil {
		return err
	}
	after, err := cpuTime(b.agent.process.PID())
	if err != nil {
		return err
	}
	b.r.idle = ms(after-before) / time.Since(began).Seconds()
	if b.r.memory, err = residentMemory(b.agent.process.PID()); err != nil {
		return err
	}
	b.say("at rest: %.2f ms of CPU a second, %.1f MiB resident", b.r.idle, b.r.memory)
	_, err = b.agent.remove(ctx, uids)
	return err
}
