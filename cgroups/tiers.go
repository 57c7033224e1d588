package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/podsync/podspec"
)

// tiers is what is remembered of the cgroups above the pods'.
type tiers struct {
	mu sync.Mutex
	// checked is when they were last compared; zero makes the next use do so.
	checked time.Time
	// milli is the CPU that each Burstable pod requests, in thousandths; sum is
	// theirs together, and shares what the tier was last given for it.
	milli  map[types.UID]int64
	sum    int64
	shares uint64
}

func (t *tiers) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checked = time.Time{}
}

// count notes a Burstable pod's request; a negative one takes the pod out.
func (t *tiers) count(uid types.UID, milli int64) {
	if t.milli == nil {
		t.milli = map[types.UID]int64{}
	}
	t.sum -= t.milli[uid]
	if milli < 0 {
		delete(t.milli, uid)
		return
	}
	t.milli[uid] = milli
	t.sum += milli
}

// tierShares are the CPU shares of a tier, by the kubelet's rules. ok is false
// for that of Guaranteed pods, which has none of its own.
func tierShares(qos corev1.PodQOSClass, burstableMilli int64) (shares uint64, ok bool) {
	switch qos {
	case corev1.PodQOSBurstable:
		return Shares(burstableMilli), true
	case corev1.PodQOSBestEffort:
		return MinShares, true
	default:
		return 0, false
	}
}

func requestedMilli(pod *corev1.Pod) int64 {
	return milliOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
}

// tierFor makes the tiers ready for the pod and counts it in.
func (h *Host) tierFor(qos corev1.PodQOSClass, pod *corev1.Pod) error {
	t := &h.tiers
	t.mu.Lock()
	defer t.mu.Unlock()
	if qos == corev1.PodQOSBurstable {
		t.count(pod.UID, requestedMilli(pod))
	}
	return h.settleTiers(false)
}

// leaveTier counts the pod out.
func (h *Host) leaveTier(uid types.UID) error {
	t := &h.tiers
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.milli[uid]; !ok {
		return nil
	}
	t.count(uid, -1)
	return h.settleTiers(false)
}

// RefreshTiers implements Manager.
func (h *Host) RefreshTiers(ctx context.Context, pods []*corev1.Pod) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := &h.tiers
	t.mu.Lock()
	defer t.mu.Unlock()
	t.milli, t.sum = nil, 0
	for _, p := range pods {
		if podspec.QOS(p) == corev1.PodQOSBurstable {
			t.count(p.UID, requestedMilli(p))
		}
	}
	return h.settleTiers(true)
}

// settleTiers brings the tiers about when that is due, else only the shares of
// the Burstable tier when they changed. The caller holds tiers.mu.
func (h *Host) settleTiers(force bool) error {
	t := &h.tiers
	shares, _ := tierShares(corev1.PodQOSBurstable, t.sum)
	now := h.clock.Now()
	due := force || t.checked.IsZero() || now.Sub(t.checked) >= h.recheck
	if !due && shares == t.shares {
		return nil
	}
	if !due {
		n, err := TierName(h.root, corev1.PodQOSBurstable)
		if err != nil {
			return err
		}
		_, err = h.bring(n, Resources{CPUShares: shares})
		if err == nil {
			t.shares = shares
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cgroup of Burstable pods: %w", err)
		}
	}
	if err := h.makeTiers(t.sum); err != nil {
		t.checked = time.Time{}
		return err
	}
	t.checked, t.shares = now, shares
	return nil
}

// makeTiers makes everything from the mount down to the tiers.
func (h *Host) makeTiers(burstableMilli int64) error {
	var above Name
	for _, part := range h.root.parts[:len(h.root.parts)-1] {
		if err := h.enable(above); err != nil {
			return err
		}
		next, err := above.Child(part)
		if err != nil {
			return err
		}
		if _, err := h.bring(next, Resources{}); err != nil {
			return fmt.Errorf("cgroup %s above the pods: %w", next, err)
		}
		above = next
	}
	if err := h.enable(above); err != nil {
		return err
	}
	if _, err := h.bring(h.root, h.node); err != nil {
		return fmt.Errorf("cgroup %s of all pods: %w", h.root, err)
	}
	for _, q := range qosClasses() {
		n, err := TierName(h.root, q)
		if err != nil {
			return err
		}
		if shares, ok := tierShares(q, burstableMilli); ok {
			if _, err := h.bring(n, Resources{CPUShares: shares}); err != nil {
				return fmt.Errorf("cgroup %s of %s pods: %w", n, q, err)
			}
		}
		if err := h.enable(n); err != nil {
			return err
		}
	}
	return nil
}

// enable gives the children of a v2 cgroup the controllers that pods need: those
// of the kubelet's list that the mount offers. On v1 there is nothing to do, and
// systemd does it by itself for what it makes.
func (h *Host) enable(n Name) error {
	if !h.layout.v2 || h.layout.plain || h.units != nil {
		return nil
	}
	offered, err := h.list(h.layout.dirs[0], "cgroup.controllers")
	if err != nil {
		return err
	}
	if missing := without([]string{controllerCPU, controllerMemory, controllerPids}, offered); len(missing) > 0 {
		return &MissingControllersError{Cgroup: h.layout.dirs[0], Missing: missing}
	}
	needed := within([]string{controllerCPU, controllerCpuset, controllerHugetlb, controllerMemory, controllerPids}, offered)
	dir := h.dir(0, n)
	have, err := h.list(dir, "cgroup.controllers")
	if err != nil {
		return err
	}
	if missing := without(needed, have); len(missing) > 0 {
		return &MissingControllersError{Cgroup: h.driver.Path(n), Missing: missing}
	}
	on, err := h.list(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	// io is for the runtime; pods can do without.
	var failed error
	for _, c := range without(append(needed, within([]string{"io"}, have)...), on) {
		if err := h.tree.write(dir, "cgroup.subtree_control", "+"+c); err != nil && slices.Contains(needed, c) {
			failed = errors.Join(failed, fmt.Errorf("enable %s in %s: %w", c, dir, err))
		}
	}
	if failed == nil {
		return nil
	}
	on, err = h.list(dir, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	return &MissingControllersError{Cgroup: "below " + h.driver.Path(n), Missing: without(needed, on), Err: failed}
}

func (h *Host) list(dir, file string) ([]string, error) {
	s, err := h.tree.read(dir, file)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", file, dir, err)
	}
	return strings.Fields(s), nil
}

// within returns the elements of a that are in b, without those that are not.
func within(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
