package config

import (
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Defaults of Node and of the inputs.
const (
	// DefaultResolvConf is the host's resolver configuration.
	DefaultResolvConf = "/etc/resolv.conf"
	// DefaultLogsRoot is the directory of pod logs, the kubelet's own.
	DefaultLogsRoot = "/var/log/pods"
	// DefaultCPUCFSQuotaPeriod is the period of the CPU quota.
	DefaultCPUCFSQuotaPeriod = 100 * time.Millisecond
)

// Swap says how much swap containers may use.
type Swap string

// The swap behaviours, as the kubelet's memorySwap.swapBehavior.
const (
	// SwapNone gives containers no swap. The default.
	SwapNone Swap = "NoSwap"
	// SwapLimited gives Burstable pods swap in proportion to their memory
	// request, on cgroup v2 only.
	SwapLimited Swap = "LimitedSwap"
)

// Node is what the configurations need to know of the node. The zero value is
// a node of unknown name, address and size, with CPU limits enforced and
// seccomp as the pod says. It must not be changed while in use.
type Node struct {
	// Name is the node's name, for hostname overrides and spec.nodeName.
	Name string
	// IPs are the node's addresses, primary first, for status.hostIP(s).
	IPs []string
	// Allocatable and Capacity are the node's resources. Allocatable stands in
	// for limits that a resourceFieldRef asks for and a container does not set;
	// Capacity's memory scales the OOM score. Missing entries count as zero.
	Allocatable, Capacity corev1.ResourceList

	// ClusterDNS are the servers of dnsPolicy ClusterFirst. Empty falls back to
	// the host's, with a warning.
	ClusterDNS []string
	// ClusterDomain is the suffix of the search list of ClusterFirst, as in
	// "cluster.local". Empty leaves the host's search list alone.
	ClusterDomain string
	// ResolvConf is the path of the host's resolver configuration; "" is
	// DefaultResolvConf.
	ResolvConf string

	// SeccompDefault makes RuntimeDefault, not Unconfined, the profile of
	// containers that name none.
	SeccompDefault bool
	// SeccompRoot is the directory of Localhost profiles; "" is the kubelet's,
	// /var/lib/kubelet/seccomp.
	SeccompRoot string

	// MaskedPaths are masked in containers besides the usual ones, unless their
	// procMount is Unmasked: the thermal throttle counters of the node's CPUs,
	// for one.
	MaskedPaths []string

	// NoCPUCFSQuota turns the enforcement of CPU limits off.
	NoCPUCFSQuota bool
	// CPUCFSQuotaPeriod is the period of CPU limits; 0 is
	// DefaultCPUCFSQuotaPeriod. It is rounded down to microseconds.
	CPUCFSQuotaPeriod time.Duration
	// CgroupV2 tells that the node has the unified hierarchy: oom.group and swap
	// limits are then set through it.
	CgroupV2 bool
	// SingleProcessOOMKill lets the kernel kill one process of a container
	// instead of all (cgroup v2).
	SingleProcessOOMKill bool
	// HugepageSizes are the page sizes of the node in the kernel's notation,
	// "2MB". Each gets a limit, 0 when the container asks for none.
	HugepageSizes []string
	// Swap is the swap behaviour; "" is SwapNone. It has an effect only with
	// SwapAccounting.
	Swap Swap
	// SwapAccounting tells that the swap controller is there.
	SwapAccounting bool
	// SwapCapacity is the node's swap in bytes, for SwapLimited.
	SwapCapacity int64

	// LogsRoot is the directory of pod logs; "" is DefaultLogsRoot.
	LogsRoot string
}

// ResolvConfPath returns ResolvConf or its default.
func (n *Node) ResolvConfPath() string {
	if n == nil || n.ResolvConf == "" {
		return DefaultResolvConf
	}
	return n.ResolvConf
}

func (n *Node) seccompRoot() string {
	if n.SeccompRoot == "" {
		return "/var/lib/kubelet/seccomp"
	}
	return filepath.Clean(n.SeccompRoot)
}

func (n *Node) logsRoot() string {
	if n.LogsRoot == "" {
		return DefaultLogsRoot
	}
	return n.LogsRoot
}

func (n *Node) orZero() *Node {
	if n == nil {
		return &Node{}
	}
	return n
}
