// Package admit has the built-in stages of the admit phase: what a kubelet
// checks before it takes a pod. They have no side effects; each judges the pod
// against the node and against Sync.Admitted, and gives the kubelet's reasons.
//
//	plan.Admit = admit.Standard(node)
//	plan.Admit.Before(podsync.StageResources, License{})
package admit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Node gives the node that pods are judged against: labels, taints and
// allocatable resources. nil means that it is not known yet; the stages then
// wait for podsync.TopicNodeChanged, for a refusal is final and may only come
// from a node object that is complete. It is called often and must not block.
type Node func() *corev1.Node

// Fixed returns a Node that never changes.
func Fixed(n *corev1.Node) Node { return func() *corev1.Node { return n } }

// nodeWait is how long a stage waits for the node to become known.
const nodeWait = 10 * time.Second

// node returns the node, or the outcome to return while there is none.
func (n Node) get() (*corev1.Node, podsync.Outcome) {
	if n != nil {
		if node := n(); node != nil {
			return node, podsync.Continue()
		}
	}
	return nil, podsync.Wait(nodeWait, "NodeNotKnown", "the node's labels and resources are not known yet").WakeOn(podsync.TopicNodeChanged)
}

// Standard returns an admit pipeline of all built-in stages: sysctls, os,
// node-selector, taints, host-ports, resources. Those without need of the node
// come first; the first refusal decides the reason.
func Standard(node Node) *podsync.Builder {
	return podsync.NewBuilder(podsync.PhaseAdmit).
		Append(Sysctls{}).
		Append(OS{}).
		Append(NodeSelector{Node: node}).
		Append(Taints{Node: node}).
		Append(HostPorts{}).
		Append(Resources{Node: node})
}

// static tells whether the pod comes from a source other than the API server.
// Such pods are placed on the node by hand: no scheduler looked at its taints.
func static(p *corev1.Pod) bool {
	src, ok := p.Annotations["kubernetes.io/config.source"]
	return ok && src != "api"
}

// HostPorts refuses a pod that wants a host port which an admitted pod has:
// reason NodePorts. Ports of restartable init containers count.
type HostPorts struct{}

var _ podsync.Stage = HostPorts{}

// Name returns podsync.StageHostPorts.
func (HostPorts) Name() string { return podsync.StageHostPorts }

// Run rejects the pod when one of its host ports is taken.
func (HostPorts) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	want := hostPorts(s.Pod())
	if len(want) == 0 {
		return podsync.Skip("NoHostPorts")
	}
	for _, other := range s.Admitted() {
		for _, have := range hostPorts(other) {
			for _, w := range want {
				if w.conflicts(have) {
					return podsync.Reject("NodePorts", "host port %s is taken by pod %s/%s", w, other.Namespace, other.Name)
				}
			}
		}
	}
	return podsync.Continue()
}

type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

func (h hostPort) String() string { return fmt.Sprintf("%s:%d/%s", h.ip, h.port, h.protocol) }

func (h hostPort) conflicts(o hostPort) bool {
	return h.port == o.port && h.protocol == o.protocol && (h.ip == o.ip || h.ip == anyIP || o.ip == anyIP)
}

const anyIP = "0.0.0.0"

func hostPorts(p *corev1.Pod) (ports []hostPort) {
	add := func(c *corev1.Container) {
		for _, cp := range c.Ports {
			if cp.HostPort <= 0 {
				continue
			}
			h := hostPort{ip: cp.HostIP, protocol: cp.Protocol, port: cp.HostPort}
			if h.ip == "" || h.ip == "::" {
				h.ip = anyIP
			}
			if h.protocol == "" {
				h.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, h)
		}
	}
	for i := range p.Spec.InitContainers {
		if rp := p.Spec.InitContainers[i].RestartPolicy; rp != nil && *rp == corev1.ContainerRestartPolicyAlways {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return ports
}
