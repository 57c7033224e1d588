package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// Options set up a Host. The zero value is a kubelet's default node.
type Options struct {
	// Root is where the hierarchies are mounted; default /sys/fs/cgroup. Its file
	// system decides between cgroup v1 and v2. NewDir ignores it.
	Root string
	// CgroupRoot is the cgroup, in the cgroupfs spelling, below which "kubepods"
	// lies; default "/". Everything below its kubepods is taken to be this
	// agent's: another agent on the node needs another CgroupRoot.
	CgroupRoot string
	// Driver is how cgroups are spelled and made; default Cgroupfs. It must be
	// the runtime's.
	Driver Driver
	// Values are the node's settings for the pods' values.
	Values Values
	// Node are the values of the kubepods cgroup: what all pods together may use.
	// Zero fields, and so by default all, leave the kernel's.
	Node Resources
	// Weight turns CPU shares into the weight of cgroup v2; default LinearWeight,
	// which says why.
	Weight WeightFunc
	// Recheck is the age at which Ensure no longer trusts what it remembers of an
	// unchanged pod and reads its cgroup back; default 1 min. It bounds how long
	// somebody else's change or removal goes unnoticed; Update notices at once.
	Recheck time.Duration
	// RemoveTimeout is how long one Remove tries; default 5 s.
	RemoveTimeout time.Duration
	// Logger is told of repairs; nil discards.
	Logger *slog.Logger
	// Clock serves Recheck; nil is the real one.
	Clock clock.PassiveClock
}

// Host is the Manager of a node: it keeps the cgroups of the pods below one
// cgroup root. New and NewDir make one.
type Host struct {
	layout  layout
	tree    tree
	driver  Driver
	units   unitMaker
	root    Name // kubepods
	values  Values
	node    Resources
	weight  WeightFunc
	recheck time.Duration
	patient time.Duration
	log     *slog.Logger
	clock   clock.PassiveClock
	tiers   tiers

	mu   sync.Mutex
	pods map[types.UID]*known
}

var _ Manager = (*Host)(nil)

// unitMaker makes and removes cgroups that another process owns: systemd.
type unitMaker interface {
	set(n Name, r Resources) error
	remove(n Name) error
	// adjust returns the values as they will be once set.
	adjust(r Resources) Resources
}

// known is what is remembered of a pod's cgroup.
type known struct {
	pod        *corev1.Pod
	generation int64
	parent     string
	values     Resources
	checked    time.Time
}

// newHost makes a Host of its parts, and checks the options.
func newHost(o Options, l layout, t tree, u unitMaker) (*Host, error) {
	switch o.Driver {
	case "":
		o.Driver = Cgroupfs
	case Cgroupfs, Systemd:
	default:
		return nil, fmt.Errorf("cgroup driver %q: must be %q or %q", o.Driver, Cgroupfs, Systemd)
	}
	if o.CgroupRoot == "" {
		o.CgroupRoot = "/"
	}
	base, err := ParseCgroupfs(o.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("cgroup root %q: %w", o.CgroupRoot, err)
	}
	root, err := base.Child(KubepodsPart)
	if err != nil {
		return nil, err
	}
	h := &Host{layout: l, tree: t, driver: o.Driver, units: u, root: root, values: o.Values, node: o.Node,
		weight: o.Weight, recheck: o.Recheck, patient: o.RemoveTimeout, log: o.Logger, clock: o.Clock,
		pods: map[types.UID]*known{}}
	if h.weight == nil {
		h.weight = LinearWeight
	}
	if h.recheck <= 0 {
		h.recheck = time.Minute
	}
	if h.patient <= 0 {
		h.patient = 5 * time.Second
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.clock == nil {
		h.clock = clock.RealClock{}
	}
	return h, nil
}

// String says what is managed, as in "cgroup v2 at /sys/fs/cgroup, cgroupfs, /kubepods".
func (h *Host) String() string {
	return fmt.Sprintf("%s, %s, %s", &h.layout, h.driver, h.driver.Path(h.root))
}

// Ensure implements Manager. Until Recheck is over, a pod whose values are those
// of the last call costs no system call, and one that is also the very object of
// the last call, with the generation it had then, costs no work at all.
func (h *Host) Ensure(ctx context.Context, pod *corev1.Pod) (string, error) {
	now := h.clock.Now()
	h.mu.Lock()
	k := h.pods[pod.UID]
	if k != nil && now.Sub(k.checked) >= h.recheck {
		k = nil
	}
	if k != nil && k.pod == pod && k.generation == pod.Generation {
		parent := k.parent
		h.mu.Unlock()
		return parent, nil
	}
	h.mu.Unlock()
	return h.sync(ctx, pod, k)
}

// Update implements Manager.
func (h *Host) Update(ctx context.Context, pod *corev1.Pod) error {
	_, err := h.sync(ctx, pod, nil)
	return err
}

// sync brings the pod's cgroup about and remembers it. Where trusted, what is
// remembered and fresh, says that it is as it should be, it is left alone.
func (h *Host) sync(ctx context.Context, pod *corev1.Pod, trusted *known) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	qos := podspec.QOS(pod)
	n, err := h.podName(qos, pod.UID)
	if err != nil {
		return "", fmt.Errorf("cgroup of pod %s: %w", podsync.Ref(pod), err)
	}
	k := &known{pod: pod, generation: pod.Generation, parent: h.driver.Path(n), values: h.values.ForPod(pod)}
	if trusted != nil && trusted.parent == k.parent && trusted.values.equal(k.values) {
		k.checked = trusted.checked
		h.remember(pod.UID, k)
		return k.parent, nil
	}
	created, err := h.bringPod(qos, pod, n, k.values)
	if err != nil {
		return "", fmt.Errorf("cgroup of pod %s: %w", podsync.Ref(pod), err)
	}
	k.checked = h.clock.Now()
	old := h.remember(pod.UID, k)
	if created && old != nil && old.parent == k.parent {
		h.log.Warn("the pod's cgroup was gone and was made again", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "cgroup", k.parent)
	}
	return k.parent, nil
}

// remember replaces what is remembered of a pod and returns it.
func (h *Host) remember(uid types.UID, k *known) (old *known) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old = h.pods[uid]
	h.pods[uid] = k
	return old
}

func (h *Host) podName(qos corev1.PodQOSClass, uid types.UID) (Name, error) {
	n, err := PodName(h.root, qos, uid)
	if err == nil && h.driver == Systemd && len(n.Slice()) > nameMax {
		err = &NameError{Part: n.Slice(), Why: fmt.Sprintf("longer than %d bytes, systemd's limit for a unit", nameMax)}
	}
	return n, err
}

// ReduceCPU implements Manager.
func (h *Host) ReduceCPU(ctx context.Context, uid types.UID) error {
	names, err := h.namesOf(uid)
	if err != nil {
		return err
	}
	h.forget(uid) // whoever wants the pod again gets its values again
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, s := range h.plan(Resources{CPUShares: MinShares}) {
			i, _ := h.layout.index(s.controller)
			if err := h.settle(h.dir(i, n), s, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("lower the CPU of the cgroup of pod %s: %w", uid, err)
			}
		}
	}
	return nil
}

func (h *Host) forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, uid)
}

// qosClasses in the order of their tiers' directories.
func qosClasses() [3]corev1.PodQOSClass {
	return [3]corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}
}

// namesOf returns every name that the pod's cgroup may have.
func (h *Host) namesOf(uid types.UID) ([]Name, error) {
	out := make([]Name, 0, 3)
	for _, q := range qosClasses() {
		n, err := h.podName(q, uid)
		if err != nil {
			return nil, fmt.Errorf("cgroup of pod %q: %w", uid, err)
		}
		out = append(out, n)
	}
	return out, nil
}

// List implements Manager.
func (h *Host) List(ctx context.Context) ([]types.UID, error) {
	seen := map[types.UID]bool{}
	for _, q := range qosClasses() {
		tier, err := TierName(h.root, q)
		if err != nil {
			return nil, err
		}
		for i := range h.layout.dirs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			subs, err := h.tree.subdirs(h.dir(i, tier))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list the cgroups of pods: %w", err)
			}
			for _, base := range subs {
				if n, err := h.driver.parse(tier, base); err == nil {
					if uid, ok := n.UID(); ok {
						seen[uid] = true
					}
				}
			}
		}
	}
	uids := make([]types.UID, 0, len(seen))
	for uid := range seen {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids, nil
}
