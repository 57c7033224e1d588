package cni

import (
	"context"
	"time"

	"github.com/podsync/sdk/podsync"
)

// ReasonHostNetwork is the Skip of a pod that uses the host's network.
const ReasonHostNetwork = "HostNetwork"

// Ready returns the sync stage, named podsync.StageNetwork, that lets a pod go
// on when it can be given a network. It ends in
//
//   - Skip(HostNetwork): the pod needs none;
//   - Continue: the network is ready, or the pod has a ready sandbox with an
//     address already. The kubelet holds such a pod too, and so restarts none of
//     its containers during an outage;
//   - Wait(1 s, NetworkNotReady), which podsync.TopicNetworkReady ends early. It
//     is never a failure: the phase of the pod stays Pending.
func Ready(c Checker) podsync.Stage {
	return podsync.NewStage(podsync.StageNetwork, func(ctx context.Context, s *podsync.Sync) podsync.Outcome {
		if s.Pod().Spec.HostNetwork {
			return podsync.Skip(ReasonHostNetwork)
		}
		ready, reason, message := c.Ready(ctx)
		if ready || connected(s.Runtime()) {
			return podsync.Continue()
		}
		return podsync.Wait(time.Second, ReasonNotReady, "network is not ready: %s: %s", reason, message).
			WakeOn(podsync.TopicNetworkReady)
	})
}

// connected tells whether the pod has its network.
func connected(p *podsync.RuntimePod) bool { return len(p.IPs) > 0 && p.SandboxReady() }
