package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

func (h *Host) bringPod(qos corev1.PodQOSClass, pod *corev1.Pod, n Name, r Resources) (created bool, err error) {
	if err := h.tierFor(qos, pod); err != nil {
		return false, err
	}
	created, err = h.bring(n, r)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody removed a tier since it was last looked at.
		h.tiers.forget()
		if err := h.tierFor(qos, pod); err != nil {
			return false, err
		}
		created, err = h.bring(n, r)
	}
	return created, err
}

// bring makes the cgroup exist with the values. Its parent exists.
func (h *Host) bring(n Name, r Resources) (created bool, err error) {
	if h.units != nil {
		return h.bringUnit(n, r)
	}
	fresh, err := h.mkdirs(n)
	if err != nil {
		return false, err
	}
	settings := h.plan(r)
	for at, s := range settings {
		i, ok := h.layout.index(s.controller)
		if !ok {
			continue // no such v1 hierarchy; those that matter were checked at the start
		}
		dir := h.dir(i, n)
		err := h.settle(dir, s, fresh.has(i))
		if s.file == fileV1Period && errors.Is(err, syscall.EINVAL) && at+1 < len(settings) && settings[at+1].file == fileV1Quota {
			err = h.swap(dir, s, settings[at+1])
		}
		if err != nil {
			return false, err
		}
	}
	return fresh != 0, nil
}

// indexSet is a set of indexes into layout.dirs.
type indexSet uint64

func (s indexSet) has(i int) bool { return s&(1<<uint(i)) != 0 }

// mkdirs makes the cgroup in each hierarchy where it is not, and says in which.
func (h *Host) mkdirs(n Name) (fresh indexSet, err error) {
	for _, i := range h.layout.made {
		switch err := h.tree.mkdir(h.dir(i, n)); {
		case err == nil:
			fresh |= 1 << uint(i)
		case errors.Is(err, fs.ErrExist):
		default:
			return fresh, err
		}
	}
	return fresh, nil
}

// dir returns the directory of a cgroup in the i-th hierarchy.
func (h *Host) dir(i int, n Name) string { return filepath.Join(h.layout.dirs[i], h.driver.Path(n)) }

func (h *Host) plan(r Resources) []setting {
	if h.units != nil {
		r = h.units.adjust(r)
	}
	if h.layout.v2 {
		return settingsV2(r, h.weight)
	}
	return settingsV1(r)
}

// settle makes one file hold its value. In a fresh cgroup the kernel's initial
// value is known and need neither be read nor written.
func (h *Host) settle(dir string, s setting, fresh bool) error {
	if fresh && s.value == s.initial && !h.layout.plain {
		return nil
	}
	if !fresh {
		held, err := h.holds(dir, s)
		if err != nil || held {
			return err
		}
	}
	return h.writeSetting(dir, s)
}

// holds tells whether the file holds the value. A file that may be missing and
// is counts as holding it.
func (h *Host) holds(dir string, s setting) (bool, error) {
	got, err := h.tree.read(dir, s.file)
	switch {
	case err == nil:
		return s.holds(got), nil
	case errors.Is(err, fs.ErrNotExist) && s.optional:
		return true, nil
	case errors.Is(err, fs.ErrNotExist) && h.layout.plain:
		return false, nil
	default:
		return false, fmt.Errorf("read %s: %w", filepath.Join(dir, s.file), err)
	}
}

func (h *Host) writeSetting(dir string, s setting) error {
	err := h.tree.write(dir, s.file, s.value)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist) && s.optional:
		return nil
	default:
		return fmt.Errorf("write %q to %s: %w", s.value, filepath.Join(dir, s.file), err)
	}
}

// swap writes a v1 period that the kernel refuses beside the present quota,
// since the two together exceed what the parent has: the new quota goes first.
// Where that in turn is less than a child has, the quota is lifted for the moment;
// the parent bounds the cgroup meanwhile.
func (h *Host) swap(dir string, period, quota setting) error {
	err := h.writeSetting(dir, quota)
	if errors.Is(err, syscall.EINVAL) {
		lift := quota
		lift.value = "-1"
		err = h.writeSetting(dir, lift)
	}
	if err != nil {
		return err
	}
	if err := h.writeSetting(dir, period); err != nil {
		return err
	}
	return h.writeSetting(dir, quota)
}

// bringUnit is bring for cgroups that systemd makes.
func (h *Host) bringUnit(n Name, r Resources) (created bool, err error) {
	for _, s := range h.plan(r) {
		i, ok := h.layout.index(s.controller)
		if !ok {
			continue
		}
		held, err := h.holds(h.dir(i, n), s)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true, h.units.set(n, r)
		case err != nil:
			return false, err
		case !held:
			return false, h.units.set(n, r)
		}
	}
	return false, nil
}
