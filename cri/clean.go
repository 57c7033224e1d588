package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

// Cleaner returns the podsync.Cleaner of sandboxes: it stops and removes the
// containers and sandboxes of a pod that nobody knows any more, with the
// minimum grace, and removes its logs and the links to them. What cannot be
// removed is an error and left for the next call; a sandbox is removed only
// after it was stopped well.
func (r *Runtime) Cleaner() podsync.Cleaner { return &cleaner{r} }

type cleaner struct{ r *Runtime }

// Name implements podsync.Cleaner.
func (c *cleaner) Name() string { return "sandboxes" }

// Pods implements podsync.Cleaner.
func (c *cleaner) Pods(ctx context.Context) ([]types.UID, error) {
	pods, err := c.r.mon.Pods(ctx)
	if err != nil {
		return nil, err
	}
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	if err := c.r.actuated.load(ctx); err != nil {
		return nil, err
	}
	uids = append(uids, c.r.actuated.uids()...)
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// Remove implements podsync.Cleaner.
func (c *cleaner) Remove(ctx context.Context, uid types.UID) error {
	r := c.r
	r.mon.Invalidate(uid)
	rp, err := r.mon.Observe(ctx, uid)
	if err != nil {
		return err
	}
	if len(rp.Sandboxes)+len(rp.Containers) > 0 {
		end := r.mon.begin(uid)
		defer end(true)
		if err := c.stop(ctx, rp); err != nil {
			return err
		}
		for _, rc := range rp.Containers {
			if err := r.removeContainer(ctx, rc.ID); err != nil {
				return fmt.Errorf("remove container %s (%s) of pod %s: %w", rc.Name, short(rc.ID), uid, err)
			}
		}
	}
	// The sandbox goes last: as long as it is there the rest is found again.
	if err := r.removeLogs(uid); err != nil {
		return err
	}
	for _, s := range rp.Sandboxes {
		if err := r.removeSandbox(ctx, s.ID); err != nil {
			return fmt.Errorf("remove sandbox %s of pod %s: %w", short(s.ID), uid, err)
		}
	}
	if err := r.actuated.prune(ctx, uid, func(string) bool { return false }); err != nil {
		return err
	}
	r.mon.Forget(uid)
	return nil
}

// stop stops all of a pod whose spec nobody has.
func (c *cleaner) stop(ctx context.Context, rp *podsync.RuntimePod) error {
	pod := config.RebuildPod(rp)
	if pod == nil {
		return nil
	}
	k := &stopper{r: c.r, pod: pod, rt: rp, rebuilt: pod, event: func(string, string, string, ...any) {}}
	_, err := k.stopAll(ctx, func(_, _ string) (time.Duration, string) { return plan.MinimumGrace, "" })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, k.stopSandboxes(ctx, sandboxIDs(rp)))
}

func (r *Runtime) removeSandbox(ctx context.Context, id string) error {
	cctx, cancel := r.quick(ctx)
	defer cancel()
	if err := r.o.Runtime.RemovePodSandbox(cctx, id); err != nil && !notFound(err) {
		return err
	}
	return nil
}

// logsRoot returns the directory of all pods' logs.
func (r *Runtime) logsRoot() string {
	if n := r.o.Node(); n.LogsRoot != "" {
		return n.LogsRoot
	}
	return config.DefaultLogsRoot
}

// removeLogs removes the log directory of a pod, found by its UID alone, and the
// links that lead there.
func (r *Runtime) removeLogs(uid types.UID) error {
	if uid == "" || strings.ContainsAny(string(uid), `/\_`) || uid == "." || uid == ".." {
		return fmt.Errorf("pod UID %q is no name of a directory", uid)
	}
	root := r.logsRoot()
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("logs of pod %s: %w", uid, err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasSuffix(e.Name(), "_"+string(uid)) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		if err := r.removeLogLinks(func(to string) bool { return strings.HasPrefix(to, dir+string(filepath.Separator)) }); err != nil {
			return fmt.Errorf("links to the logs of pod %s: %w", uid, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("logs of pod %s: %w", uid, err)
		}
	}
	return nil
}

// removeLogLinks removes the legacy links that lead where the function says.
func (r *Runtime) removeLogLinks(leads func(to string) bool) error {
	if r.o.LogLinks == "" {
		return nil
	}
	links, err := os.ReadDir(r.o.LogLinks)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(r.o.LogLinks, l.Name())
		to, err := os.Readlink(path)
		if err != nil || !leads(to) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
