package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// Defaults of GC.
const (
	DefaultGCPeriod         = time.Minute
	DefaultKeepPerContainer = 1
	// createdGrace is how long an instance that was created and not started is
	// left alone: somebody may be about to start it.
	createdGrace = time.Minute
)

// GC says what is collected of pods that stay: dead instances of containers
// beyond the newest ones, and stopped sandboxes without containers. What is left
// of pods that nobody knows is the Cleaner's. The zero value is the kubelet's
// settings.
type GC struct {
	// Period is the time between two collections; 0 is DefaultGCPeriod.
	Period time.Duration
	// MinAge is how old a dead instance must be to be collected.
	MinAge time.Duration
	// KeepPerContainer is the number of dead instances kept of each container; 0
	// is DefaultKeepPerContainer, a negative number keeps none.
	KeepPerContainer int
	// Keep tells whether the pod is known and stays; others are not touched. nil
	// is every pod of the Owner.
	Keep func(uid types.UID) bool
}

// RunGC collects until ctx ends, and then returns nil. What cannot be removed
// is logged and tried again the next time.
func (r *Runtime) RunGC(ctx context.Context, g GC) error {
	if g.Period <= 0 {
		g.Period = DefaultGCPeriod
	}
	t := r.o.Clock.NewTicker(g.Period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C():
		}
		if err := r.Collect(ctx, g); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "garbage collection of containers", "err", err)
		}
	}
}

// Collect collects once. It does as much as it can and joins the errors.
func (r *Runtime) Collect(ctx context.Context, g GC) error {
	if g.KeepPerContainer == 0 {
		g.KeepPerContainer = DefaultKeepPerContainer
	}
	pods, err := r.mon.Pods(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range pods {
		if g.Keep != nil && !g.Keep(p.UID) || !r.surplus(p, g) {
			continue
		}
		if err := r.collectPod(ctx, p.UID, g); err != nil {
			errs = append(errs, fmt.Errorf("garbage of pod %s/%s(%s): %w", p.Namespace, p.Name, p.UID, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// surplus tells, from what a list shows, whether anything could be collected.
func (r *Runtime) surplus(p *podsync.RuntimePod, g GC) bool {
	c, s := r.garbage(p, g)
	return len(c)+len(s) > 0
}

// garbage returns the containers and sandboxes to remove.
func (r *Runtime) garbage(p *podsync.RuntimePod, g GC) (containers []*podsync.RuntimeContainer, sandboxes []string) {
	now := r.o.Clock.Now()
	dead := map[string]int{}
	for _, c := range p.Containers { // newest first
		if c.Running() {
			continue
		}
		dead[c.Name]++
		young := c.CreatedAt.Add(g.MinAge).After(now) ||
			c.State == podsync.ContainerCreated && c.CreatedAt.Add(createdGrace).After(now)
		if dead[c.Name] > max(g.KeepPerContainer, 0) && !young {
			containers = append(containers, c)
		}
	}
	gone := map[string]bool{}
	for _, c := range containers {
		gone[c.ID] = true
	}
	used := map[string]bool{}
	for _, c := range p.Containers {
		if !gone[c.ID] {
			used[c.SandboxID] = true
		}
	}
	for i, s := range p.Sandboxes {
		if i > 0 && !s.Ready && !used[s.ID] {
			sandboxes = append(sandboxes, s.ID)
		}
	}
	return containers, sandboxes
}

// collectPod removes the garbage of one pod, seen afresh. A pod that a stage is
// just changing is left for the next time.
func (r *Runtime) collectPod(ctx context.Context, uid types.UID, g GC) error {
	if r.mon.acting(uid) {
		return nil
	}
	p, err := r.mon.Observe(ctx, uid)
	if err != nil {
		return err
	}
	containers, sandboxes := r.garbage(p, g)
	var errs []error
	if len(containers) > 0 {
		errs = append(errs, r.actuated.prune(ctx, uid, func(id string) bool {
			return !slices.ContainsFunc(containers, func(c *podsync.RuntimeContainer) bool { return c.ID == id })
		}))
	}
	for _, c := range containers {
		errs = append(errs, r.collectContainer(ctx, c))
	}
	for _, id := range sandboxes {
		cctx, cancel := r.quick(ctx)
		err := r.o.Runtime.StopPodSandbox(cctx, id)
		cancel()
		if err != nil && !notFound(err) {
			errs = append(errs, fmt.Errorf("stop sandbox %s: %w", short(id), err))
			continue
		}
		if err := r.removeSandbox(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox %s: %w", short(id), err))
		}
	}
	return errors.Join(errs...)
}

// collectContainer removes a dead instance and its logs. One of unknown state
// is stopped first.
func (r *Runtime) collectContainer(ctx context.Context, c *podsync.RuntimeContainer) error {
	if c.State == podsync.ContainerUnknown {
		cctx, cancel := r.quick(ctx)
		err := r.o.Runtime.StopContainer(cctx, c.ID, 2)
		cancel()
		if err != nil && !notFound(err) {
			return fmt.Errorf("stop container %s (%s): %w", c.Name, short(c.ID), err)
		}
	}
	if err := r.removeContainer(ctx, c.ID); err != nil {
		return fmt.Errorf("remove container %s (%s): %w", c.Name, short(c.ID), err)
	}
	return r.removeLog(c)
}

// removeLog removes the log files of one instance, rotated ones included, and
// the link to it. Only files below the root of the logs are.
func (r *Runtime) removeLog(c *podsync.RuntimeContainer) error {
	rel, err := filepath.Rel(r.logsRoot(), c.LogPath)
	if c.LogPath == "" || err != nil || !filepath.IsLocal(rel) {
		return nil
	}
	files, err := filepath.Glob(globQuote(c.LogPath) + "*")
	if err != nil {
		return fmt.Errorf("logs of container %s: %w", c.Name, err)
	}
	var errs []error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			errs = append(errs, fmt.Errorf("log of container %s: %w", c.Name, err))
		}
	}
	// By where they lead: a long name has cut the id off the link's.
	errs = append(errs, r.removeLogLinks(func(to string) bool { return to == c.LogPath }))
	return errors.Join(errs...)
}

// globQuote takes the meaning from the characters of a pattern.
func globQuote(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}

// acting tells whether a stage is changing the pod.
func (m *Monitor) acting(uid types.UID) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.pods[uid]
	return e != nil && e.acting > 0
}
