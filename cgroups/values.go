package cgroups

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podsync/sdk/podsync/podspec"
)

const (
	// defaultPeriod is the kernel's CFS period, and the kubelet's default.
	defaultPeriod = 100 * time.Millisecond
	// minQuota is the smallest quota that the kernel takes, in µs.
	minQuota = 1000
	// maxMilliCPU keeps products of milli-CPU inside an int64; no machine comes near.
	maxMilliCPU = 1 << 40
)

// Unlimited is the value of a limit that is not there.
const Unlimited = -1

// Resources are the values of one cgroup.
type Resources struct {
	// CPUShares is the weight against siblings, 2 to 262144. 0 leaves it alone.
	CPUShares uint64
	// CPUQuota is the CPU time in µs that may be used in each CPUPeriod, or
	// Unlimited. 0 leaves it alone.
	CPUQuota int64
	// CPUPeriod is in µs. 0 leaves it alone.
	CPUPeriod uint64
	// Memory is the limit in bytes, or Unlimited. 0 leaves it alone.
	Memory int64
	// Pids is the largest number of tasks, or Unlimited. 0 leaves it alone.
	Pids int64
	// Hugepages are the limits of pages, one for each size that the node has.
	Hugepages []HugepageLimit
}

func (r Resources) equal(o Resources) bool {
	return r.CPUShares == o.CPUShares && r.CPUQuota == o.CPUQuota && r.CPUPeriod == o.CPUPeriod &&
		r.Memory == o.Memory && r.Pids == o.Pids && slices.Equal(r.Hugepages, o.Hugepages)
}

// HugepageLimit is the limit of huge pages of one size.
type HugepageLimit struct {
	// Size is as the kernel's cgroup files spell it: "2MB", "1GB".
	Size string
	// Bytes is the limit.
	Bytes uint64
}

// Values are a node's settings for pods' cgroups. The zero value is the
// kubelet's default.
type Values struct {
	// NoCPUQuota leaves CPU limits unenforced (the kubelet's cpuCFSQuota: false).
	NoCPUQuota bool
	// CPUPeriod is the CFS period; default 100 ms, 1 ms to 1 s.
	CPUPeriod time.Duration
	// PidsLimit is the largest number of tasks of a pod; 0 or less is no limit.
	PidsLimit int64
	// HugePageSizes are the sizes that the node has, as the kernel spells them
	// ("2MB"). Default: none here; New fills in the node's.
	HugePageSizes []string
}

// Shares turns CPU in thousandths into CPU shares, as the kubelet does: 1024 a
// CPU, at least 2, at most 262144.
func Shares(milliCPU int64) uint64 {
	s := min(max(milliCPU, 0), maxMilliCPU) * 1024 / 1000
	return uint64(min(max(s, MinShares), MaxShares))
}

// Quota turns a CPU limit in thousandths into a CFS quota in µs for the period,
// as the kubelet does: at least 1000 µs, which is what the kernel takes, and
// Unlimited when there is no limit.
func Quota(milliCPU int64, period time.Duration) int64 {
	if milliCPU <= 0 {
		return Unlimited
	}
	return max(min(milliCPU, maxMilliCPU)*period.Microseconds()/1000, minQuota)
}

func (v Values) period() time.Duration {
	if v.CPUPeriod <= 0 {
		return defaultPeriod
	}
	return min(max(v.CPUPeriod, time.Millisecond), time.Second)
}

// ForPod returns the values of the pod's cgroup by the kubelet's rules. The
// requests and limits are the pod's as a whole: pod-level resources win, init
// containers and sidecars count as the scheduler counts them, overhead is added.
// A Burstable pod is bounded in CPU or memory only when each of its containers,
// or the pod itself, has a limit of it; a BestEffort pod never. The pod must be
// defaulted (a limit without a request implies the request).
func (v Values) ForPod(p *corev1.Pod) Resources {
	qos := podspec.QOS(p)
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	period := v.period()
	r := Resources{
		CPUShares: Shares(milliOf(requests)),
		CPUQuota:  Unlimited,
		CPUPeriod: uint64(period.Microseconds()),
		Memory:    Unlimited,
		Pids:      Unlimited,
		Hugepages: v.hugepages(requests),
	}
	if v.PidsLimit > 0 {
		r.Pids = v.PidsLimit
	}
	if qos == corev1.PodQOSBestEffort {
		r.CPUShares = MinShares
		return r
	}
	bounded := func(n corev1.ResourceName) bool {
		return qos == corev1.PodQOSGuaranteed || everyoneLimits(p, n)
	}
	if !v.NoCPUQuota && bounded(corev1.ResourceCPU) {
		r.CPUQuota = Quota(milliOf(limits), period)
	}
	if m := limits[corev1.ResourceMemory]; m.Value() > 0 && bounded(corev1.ResourceMemory) {
		r.Memory = m.Value()
	}
	return r
}

func milliOf(l corev1.ResourceList) int64 {
	q := l[corev1.ResourceCPU]
	return milli(q)
}

// milli is MilliValue without its overflow: a manifest may hold any number.
func milli(q resource.Quantity) int64 {
	if q.Value() >= maxMilliCPU/1000 {
		return maxMilliCPU
	}
	return q.MilliValue()
}

// everyoneLimits tells whether the pod itself or else each of its containers has
// a limit of the resource.
func everyoneLimits(p *corev1.Pod, n corev1.ResourceName) bool {
	has := func(l corev1.ResourceList) bool {
		q, ok := l[n]
		return ok && q.Sign() > 0
	}
	if p.Spec.Resources != nil && has(p.Spec.Resources.Limits) {
		return true
	}
	for i := range p.Spec.InitContainers {
		if !has(p.Spec.InitContainers[i].Resources.Limits) {
			return false
		}
	}
	for i := range p.Spec.Containers {
		if !has(p.Spec.Containers[i].Resources.Limits) {
			return false
		}
	}
	return true
}

// hugepages returns a limit for each size of the node: what the pod requests
// (which the API makes equal to its limit), else nothing at all.
func (v Values) hugepages(requests corev1.ResourceList) []HugepageLimit {
	if len(v.HugePageSizes) == 0 {
		return nil
	}
	out := make([]HugepageLimit, len(v.HugePageSizes))
	for i, s := range v.HugePageSizes {
		out[i].Size = s
	}
	for name, q := range requests {
		size, ok := hugePageSize(name)
		if !ok {
			continue
		}
		for i := range out {
			if out[i].Size == size {
				out[i].Bytes = uint64(max(q.Value(), 0))
			}
		}
	}
	return out
}

// hugePageSize turns a resource name ("hugepages-2Mi") into the kernel's
// spelling of the size ("2MB").
func hugePageSize(n corev1.ResourceName) (string, bool) {
	s, ok := strings.CutPrefix(string(n), corev1.ResourceHugePagesPrefix)
	if !ok {
		return "", false
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Value() < 1024 || q.Value()%1024 != 0 {
		return "", false
	}
	kb := q.Value() / 1024
	for _, unit := range []string{"KB", "MB"} {
		if kb%1024 != 0 || kb == 0 {
			return strconv.FormatInt(kb, 10) + unit, true
		}
		kb /= 1024
	}
	return strconv.FormatInt(kb, 10) + "GB", true
}
