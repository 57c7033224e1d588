package cni

import (
	"context"
	"errors"
	"net/netip"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotAttached is what Check returns, wrapped, for a sandbox that has no
// network: Add was never called for it, did not finish, or was undone.
var ErrNotAttached = errors.New("not attached to its network")

// DefaultInterface is a pod's interface in its first network.
const DefaultInterface = "eth0"

// Network gives pod sandboxes their network, for runtimes that do not do it
// themselves. Plugins is the one of this package; a runtime backend calls Add
// after it has made a sandbox's network namespace and before it starts the first
// container, Delete after the last container ended, and GC from time to time.
// Pods on the host's network never come here.
//
// Safe for concurrent use. Calls for one sandbox are done one after another,
// those of different sandboxes side by side. All of them may run programs and
// take seconds; they end soon after their context does.
type Network interface {
	// Add attaches the sandbox to its networks and returns its addresses. It is
	// idempotent: a sandbox that is attached and passes Check keeps what it has;
	// one whose Add was interrupted, or that fails Check, is detached and attached
	// anew. When Add fails nothing of the attempt stays, as far as the plugins can
	// undo it; what they cannot is GC's to finish. Every failure may be tried again.
	Add(ctx context.Context, s Sandbox) (Result, error)

	// Check tells whether the sandbox still has what Add gave it: nil, an error
	// that is ErrNotAttached, or what a plugin found missing.
	Check(ctx context.Context, s Sandbox) error

	// Delete detaches the sandbox and gives its addresses back. It is idempotent: a
	// sandbox that is unknown, or was deleted before, is no error, and neither is a
	// network namespace or a configuration that is gone. Only the ID of a sandbox
	// that was added is needed. After an error Delete must be called again; the
	// sandbox's addresses are not reused until then.
	Delete(ctx context.Context, s Sandbox) error

	// Status tells whether Add can work now: nil, or why not.
	Status(ctx context.Context) error

	// GC gives back everything that belongs to no live sandbox. live is called
	// while no Add or Delete is under way, so that a sandbox that is being made
	// cannot be missed; it returns all sandboxes that exist, with their IDs at
	// least, those included that are being made or torn down. When it fails nothing
	// is collected. GC goes on past failures and returns all of them.
	GC(ctx context.Context, live func(context.Context) ([]Sandbox, error)) error
}

// Sandbox is one pod sandbox as its network sees it.
type Sandbox struct {
	// ID is the sandbox's in the runtime: letters, digits, "_", ".", "-", at most
	// 128. Required.
	ID string
	// Namespace, Name and UID are the pod's. Plugins get them in CNI_ARGS.
	Namespace, Name string
	UID             types.UID
	// NetNS is the path of the network namespace: a file that it is bound to, or
	// /proc/PID/ns/net. Required by Add.
	NetNS string
	// IfName is the interface in the first network; default DefaultInterface. In
	// further networks it is net1, net2 and so on.
	IfName string
	// Networks are the names of the networks to attach to, the one that gives the
	// pod its addresses first. Default is the backend's choice.
	Networks []string
	// PortMappings are the host ports; those without a host port are left out.
	PortMappings []PortMapping
	// Bandwidth limits the pod's traffic; nil for no limit.
	Bandwidth *Bandwidth
	// DNS is for plugins that configure name servers; nil for none.
	DNS *DNS
	// IPRanges are the ranges to take addresses from, in place of the
	// configuration's: one inner list for each address.
	IPRanges [][]IPRange
	// CgroupParent is the pod's cgroup, for plugins that mark traffic by it.
	CgroupParent string
	// Annotations are the pod's.
	Annotations map[string]string
	// Args are further CNI_ARGS, and Capabilities further capability arguments of
	// the first network; both win over what the other fields say.
	Args         map[string]string
	Capabilities map[string]any
}

// PortMapping is one host port, in the form of the portMappings capability.
type PortMapping struct {
	// HostPort is the port on the node; 0 maps nothing.
	HostPort int32 `json:"hostPort"`
	// ContainerPort is the port in the pod.
	ContainerPort int32 `json:"containerPort"`
	// Protocol is tcp, udp or sctp, in lower case; empty is tcp.
	Protocol string `json:"protocol"`
	// HostIP is the node's address to listen on; empty for all.
	HostIP string `json:"hostIP,omitempty"`
}

// Bandwidth limits traffic, in the form of the bandwidth capability. Rates are in
// bits per second, bursts in bits; 0 is no limit.
type Bandwidth struct {
	// IngressRate and IngressBurst limit what the pod receives.
	IngressRate  int64 `json:"ingressRate,omitempty"`
	IngressBurst int64 `json:"ingressBurst,omitempty"`
	// EgressRate and EgressBurst limit what it sends.
	EgressRate  int64 `json:"egressRate,omitempty"`
	EgressBurst int64 `json:"egressBurst,omitempty"`
}

// DNS is a resolver's configuration, in the form of the dns capability.
type DNS struct {
	// Servers are addresses, Searches domains, Options as in resolv.conf.
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// IPRange is a part of a subnet, in the form of the ipRanges capability.
type IPRange struct {
	// Subnet is in CIDR notation. RangeStart and RangeEnd are the first and last
	// address to give out, Gateway the subnet's router; all three may be empty.
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart,omitempty"`
	RangeEnd   string `json:"rangeEnd,omitempty"`
	Gateway    string `json:"gateway,omitempty"`
}

// Result is what a sandbox got.
type Result struct {
	// IPs are the pod's addresses: those of the first network, the pod's primary
	// one first.
	IPs []netip.Addr
	// Attachments are the networks, in order.
	Attachments []Attachment
}

// Attachment is one network of a sandbox.
type Attachment struct {
	// Network is its name, IfName the interface in the sandbox.
	Network, IfName string
	// MAC is the interface's hardware address, if the plugins tell it.
	MAC string
	// IPs are the interface's addresses, in the order of Result.IPs.
	IPs []netip.Prefix
	// Raw is what the plugins returned: routes, host interfaces, name servers.
	Raw *types100.Result
}
