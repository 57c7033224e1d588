package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kernel's and the kubelet's bounds of CPU shares and quota, and the OOM
// scores of the quality-of-service classes.
const (
	minShares   = 2
	maxShares   = 262144
	minQuota    = 1000 // µs
	maxMilliCPU = 1 << 30

	oomGuaranteed   = -997
	oomBurstableMin = 1000 + oomGuaranteed
	oomBurstableMax = 999
	oomBestEffort   = 1000
)

// cpuShares turns thousandths of a CPU, at most maxMilliCPU, into shares.
func cpuShares(milli int64) int64 {
	return min(max(milli*1024/1000, minShares), maxShares)
}

// cpuQuota turns thousandths of a CPU, at most maxMilliCPU, into microseconds of CPU time per period;
// 0 is no limit.
func cpuQuota(milli, period int64) int64 {
	if milli <= 0 {
		return 0
	}
	return max(milli*period/1000, minQuota)
}

// milliOf returns thousandths, bounded by what shares and quota are capped to
// anyway: a Quantity's own conversion overflows.
func milliOf(q *resource.Quantity) int64 {
	if q.CmpInt64(maxMilliCPU/1000) >= 0 {
		return maxMilliCPU
	}
	return max(q.MilliValue(), 0)
}

// bytesOf returns whole units, never negative and without overflow.
func bytesOf(q *resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return max(q.Value(), 0)
}

// linuxResources turns CPU and memory amounts into what the runtime is asked
// for. A nil request falls back to the limit.
func linuxResources(n *Node, cpuRequest, cpuLimit, memoryLimit *resource.Quantity, exclusiveCPUs bool) *runtimeapi.LinuxContainerResources {
	if cpuRequest == nil {
		cpuRequest = cpuLimit
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          cpuShares(milliOf(cpuRequest)),
		MemoryLimitInBytes: bytesOf(memoryLimit),
	}
	if !n.NoCPUCFSQuota {
		r.CpuPeriod = n.period()
		r.CpuQuota = cpuQuota(milliOf(cpuLimit), r.CpuPeriod)
		if exclusiveCPUs {
			r.CpuQuota = -1
		}
	}
	if n.CgroupV2 && !n.SingleProcessOOMKill {
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

func (n *Node) period() int64 {
	d := n.CPUCFSQuotaPeriod
	if d < time.Microsecond {
		d = DefaultCPUCFSQuotaPeriod
	}
	return int64(d / time.Microsecond)
}

// containerResources returns the resources of one container.
func containerResources(n *Node, pod *corev1.Pod, c *corev1.Container, exclusiveCPUs bool) *runtimeapi.LinuxContainerResources {
	cpuLimit, memoryLimit := c.Resources.Limits.Cpu(), c.Resources.Limits.Memory()
	podLevel := resourcehelper.IsPodLevelResourcesSet(pod)
	if podLevel && cpuLimit.IsZero() {
		cpuLimit = pod.Spec.Resources.Limits.Cpu()
	}
	if podLevel && memoryLimit.IsZero() {
		memoryLimit = pod.Spec.Resources.Limits.Memory()
	}
	var cpuRequest *resource.Quantity
	if q, ok := c.Resources.Requests[corev1.ResourceCPU]; ok {
		cpuRequest = &q
	}
	r := linuxResources(n, cpuRequest, cpuLimit, memoryLimit, exclusiveCPUs)
	qos := qosClass(pod)
	r.OomScoreAdj = oomScore(n, pod, c, qos)
	r.HugepageLimits = hugepageLimits(n, pod, c, podLevel)
	setSwap(n, r, pod, c, qos)
	return r
}

// ResizedResources returns what a running container's update has to say of one
// resource, memory or CPU: what is left zero stays as it is, and a limit that is
// to go is negative.
func ResizedResources(n *Node, pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName) *runtimeapi.LinuxContainerResources {
	all := containerResources(n, pod, c, false)
	if name == corev1.ResourceCPU {
		r := &runtimeapi.LinuxContainerResources{CpuShares: all.CpuShares, CpuQuota: all.CpuQuota, CpuPeriod: all.CpuPeriod}
		if r.CpuQuota == 0 && !n.NoCPUCFSQuota {
			r.CpuQuota = -1
		}
		return r
	}
	r := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: all.MemoryLimitInBytes, MemorySwapLimitInBytes: all.MemorySwapLimitInBytes}
	if r.MemoryLimitInBytes == 0 {
		r.MemoryLimitInBytes = -1
	}
	if n.SwapAccounting && r.MemorySwapLimitInBytes == 0 && !n.CgroupV2 {
		r.MemorySwapLimitInBytes = -1
	}
	if v, ok := all.Unified["memory.swap.max"]; ok {
		r.Unified = map[string]string{"memory.swap.max": v}
	}
	return r
}

// MemoryLimit returns the memory limit that the container gets in bytes, the
// pod's where it has none itself; 0 is none.
func MemoryLimit(pod *corev1.Pod, c *corev1.Container) int64 {
	limit := c.Resources.Limits.Memory()
	if limit.IsZero() && resourcehelper.IsPodLevelResourcesSet(pod) {
		limit = pod.Spec.Resources.Limits.Memory()
	}
	return bytesOf(limit)
}

// SandboxResources returns the pod's resources without and its overhead, as the
// sandbox's configuration and its updates have them.
func SandboxResources(n *Node, pod *corev1.Pod) (resources, overhead *runtimeapi.LinuxContainerResources) {
	return sandboxResources(n, pod)
}

// sandboxResources returns the pod's resources without and its overhead, which
// runtimes with a virtual machine per pod size it by.
func sandboxResources(n *Node, pod *corev1.Pod) (resources, overhead *runtimeapi.LinuxContainerResources) {
	opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts)
	var cpuRequest *resource.Quantity
	if q, ok := requests[corev1.ResourceCPU]; ok {
		cpuRequest = &q
	}
	resources = linuxResources(n, cpuRequest, limits.Cpu(), limits.Memory(), false)
	if pod.Spec.Overhead == nil {
		return resources, &runtimeapi.LinuxContainerResources{}
	}
	cpu := pod.Spec.Overhead.Cpu()
	return resources, linuxResources(n, cpu, cpu, pod.Spec.Overhead.Memory(), false)
}

// hugepageLimits sets a limit for each page size of the node, 0 unless the
// container or the pod has one. A size that the node does not list is added.
func hugepageLimits(n *Node, pod *corev1.Pod, c *corev1.Container, podLevel bool) []*runtimeapi.HugepageLimit {
	var list []*runtimeapi.HugepageLimit
	for _, s := range n.HugepageSizes {
		list = append(list, &runtimeapi.HugepageLimit{PageSize: s})
	}
	set := func(limits corev1.ResourceList) {
		for name, q := range limits {
			size, ok := hugepageSize(name)
			if !ok {
				continue
			}
			limit := uint64(bytesOf(&q))
			found := false
			for _, l := range list {
				if l.PageSize == size {
					l.Limit, found = limit, true
				}
			}
			if !found && len(n.HugepageSizes) == 0 {
				list = insertPageSize(list, size, limit)
			}
		}
	}
	if podLevel {
		set(pod.Spec.Resources.Limits)
	}
	set(c.Resources.Limits)
	return list
}

// insertPageSize keeps the list sorted, so that it does not depend on map order.
func insertPageSize(list []*runtimeapi.HugepageLimit, size string, limit uint64) []*runtimeapi.HugepageLimit {
	i := 0
	for i < len(list) && list[i].PageSize < size {
		i++
	}
	list = append(list, nil)
	copy(list[i+1:], list[i:])
	list[i] = &runtimeapi.HugepageLimit{PageSize: size, Limit: limit}
	return list
}

// hugepageSize turns "hugepages-2Mi" into the kernel's "2MB".
func hugepageSize(name corev1.ResourceName) (string, bool) {
	s, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return "", false
	}
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() <= 0 {
		return "", false
	}
	v, unit := q.Value(), 0
	units := [...]string{"B", "KB", "MB", "GB", "TB", "PB"}
	for v >= 1024 && v%1024 == 0 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	return strconv.FormatInt(v, 10) + units[unit], true
}

// setSwap says how much swap the container may use, where the controller is there.
func setSwap(n *Node, r *runtimeapi.LinuxContainerResources, pod *corev1.Pod, c *corev1.Container, qos corev1.PodQOSClass) {
	if !n.SwapAccounting {
		return
	}
	if !n.CgroupV2 {
		// Memory and swap together: equal to the memory limit is no swap.
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
		return
	}
	if r.Unified == nil {
		r.Unified = map[string]string{}
	}
	r.Unified["memory.swap.max"] = strconv.FormatInt(swapLimit(n, pod, c, qos), 10)
}

func swapLimit(n *Node, pod *corev1.Pod, c *corev1.Container, qos corev1.PodQOSClass) int64 {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	capacity := bytesOf(n.Capacity.Memory())
	if n.Swap != SwapLimited || qos != corev1.PodQOSBurstable || isCritical(pod) ||
		request.Cmp(*limit) == 0 || capacity <= 0 || n.SwapCapacity <= 0 {
		return 0
	}
	share := min(float64(bytesOf(request))/float64(capacity), 1)
	return int64(share * float64(n.SwapCapacity))
}

// oomScore returns how much the kernel is to prefer the container's processes
// when memory runs out: the less a Burstable container asked for, the more.
func oomScore(n *Node, pod *corev1.Pod, c *corev1.Container, qos corev1.PodQOSClass) int64 {
	if isCritical(pod) && pod.Spec.PriorityClassName == "system-node-critical" {
		return oomGuaranteed
	}
	switch qos {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	default:
	}
	capacity := bytesOf(n.Capacity.Memory())
	if capacity <= 0 {
		return oomBurstableMax
	}
	rest := restPerContainer(pod)
	request := addNoOverflow(bytesOf(c.Resources.Requests.Memory()), rest)
	if isSidecar(pod, c) {
		// A sidecar must not be killed before the containers it serves.
		request = max(request, addNoOverflow(smallestRequest(pod), rest))
	}
	score := int64(0)
	if request < capacity {
		score = 1000 - int64(1000*float64(request)/float64(capacity))
	}
	return min(max(score, oomBurstableMin), oomBurstableMax)
}

// restPerContainer is each container's part of the pod-level memory request
// that no container asks for itself.
func restPerContainer(pod *corev1.Pod) int64 {
	if !resourcehelper.IsPodLevelRequestsSet(pod) || pod.Spec.Resources.Requests.Memory().IsZero() {
		return 0
	}
	sum := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	rest := bytesOf(pod.Spec.Resources.Requests.Memory()) - bytesOf(sum.Memory())
	return max(rest, 0) / int64(max(len(pod.Spec.Containers)+len(pod.Spec.InitContainers), 1))
}

func smallestRequest(pod *corev1.Pod) int64 {
	smallest := int64(math.MaxInt64)
	for i := range pod.Spec.Containers {
		smallest = min(smallest, bytesOf(pod.Spec.Containers[i].Resources.Requests.Memory()))
	}
	if smallest == math.MaxInt64 {
		return 0
	}
	return smallest
}

func addNoOverflow(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func isSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		return false
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}

// isCritical follows the kubelet: static and mirror pods, and those of a
// system priority.
func isCritical(pod *corev1.Pod) bool {
	if source := pod.Annotations["kubernetes.io/config.source"]; source != "" && source != "api" {
		return true
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= 2_000_000_000
}
