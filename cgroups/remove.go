package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// The pauses between two attempts to remove a cgroup grow between these.
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
	// maxDepth bounds the walk below a pod's cgroup.
	maxDepth = 32
)

// Remove implements Manager. It tries for RemoveTimeout: processes are killed,
// then directories removed from the deepest up, in every hierarchy, again and
// again with growing pauses. What fails is a *BusyError.
func (h *Host) Remove(ctx context.Context, uid types.UID) error {
	names, err := h.namesOf(uid)
	if err != nil {
		return err
	}
	h.forget(uid)
	defer h.forget(uid)
	for _, n := range names {
		if err := h.destroy(ctx, n); err != nil {
			return fmt.Errorf("remove the cgroup of pod %s: %w", uid, err)
		}
	}
	return h.leaveTier(uid)
}

// destroy removes one cgroup in every hierarchy.
func (h *Host) destroy(ctx context.Context, n Name) error {
	give, stop := context.WithTimeout(ctx, h.patient)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		left, err := h.rmdirs(n)
		if err == nil {
			return nil
		}
		pids, killErr := h.killIn(n)
		if killErr != nil {
			return killErr
		}
		if len(pids) == 0 && pause == firstPause {
			continue // its last process ended meanwhile: no reason to wait
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-give.Done():
			timer.Stop()
			if err := ctx.Err(); err != nil {
				return err
			}
			return &BusyError{Cgroup: left, Pids: pids, Err: err}
		}
	}
}

// rmdirs tries once to remove the cgroup everywhere, and returns one directory
// that is left and why.
func (h *Host) rmdirs(n Name) (left string, err error) {
	if h.units != nil && h.exists(n) {
		if err := h.units.remove(n); err != nil {
			return h.driver.Path(n), err
		}
	}
	for i := range h.layout.dirs {
		dir := h.dir(i, n)
		if e := h.rmdirAll(dir, maxDepth); e != nil && !errors.Is(e, fs.ErrNotExist) {
			left, err = dir, e
		}
	}
	return left, err
}

func (h *Host) exists(n Name) bool {
	for i := range h.layout.dirs {
		if _, err := h.tree.subdirs(h.dir(i, n)); err == nil {
			return true
		}
	}
	return false
}

// rmdirAll removes a directory and what is below it, deepest first.
func (h *Host) rmdirAll(dir string, depth int) error {
	err := h.tree.rmdir(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	subs, e := h.tree.subdirs(dir)
	if e != nil || len(subs) == 0 || depth == 0 {
		return err
	}
	for _, sub := range subs {
		if e := h.rmdirAll(filepath.Join(dir, sub), depth-1); e != nil {
			return e
		}
	}
	return h.tree.rmdir(dir)
}

// killIn kills every process in the cgroup and below, in any hierarchy, and
// returns them.
func (h *Host) killIn(n Name) ([]int, error) {
	var pids []int
	for i := range h.layout.dirs {
		h.collect(h.dir(i, n), maxDepth, &pids)
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	if slices.Contains(pids, os.Getpid()) {
		return nil, fmt.Errorf("cgroup %s holds this very process", h.driver.Path(n))
	}
	// A process of another pid namespace reads as 0, and kill(0) would hit our own
	// process group.
	pids = slices.DeleteFunc(pids, func(p int) bool { return p <= 1 })
	if len(pids) == 0 {
		return nil, nil
	}
	if h.layout.v2 {
		// Kernel 5.14: kills all at once, forks in flight included.
		if h.tree.write(h.dir(0, n), "cgroup.kill", "1") == nil {
			return pids, nil
		}
	}
	var failed error
	for _, p := range pids {
		if err := h.tree.kill(p); err != nil {
			failed = errors.Join(failed, fmt.Errorf("kill process %d of cgroup %s: %w", p, h.driver.Path(n), err))
		}
	}
	return pids, failed
}

// collect adds the processes of dir and of what is below. What cannot be read
// is on its way out.
func (h *Host) collect(dir string, depth int, pids *[]int) {
	own, err := h.tree.pids(dir)
	if err == nil {
		*pids = append(*pids, own...)
	}
	subs, err := h.tree.subdirs(dir)
	if err != nil || depth == 0 {
		return
	}
	for _, sub := range subs {
		h.collect(filepath.Join(dir, sub), depth-1, pids)
	}
}
