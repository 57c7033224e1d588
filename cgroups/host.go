package cgroups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
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
