package cri_test

import (
	"testing"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync/podsynctest"
)

// TestOwnAdditionsAreNotListed: what a pod consists of after a start is known to
// who started it; only how its parts are is asked. When a call failed, or another
// has changed the pod, everything is listed.
func TestOwnAdditionsAreNotListed(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{Images: []memory.Image{{Ref: "busybox:1"}}}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		n.sync(t.Context(), pod)
		n.mem.ResetCalls()
		rp := n.observe(pod)
		if len(rp.Sandboxes) != 1 || len(rp.Containers) != 2 || !rp.Containers[0].Running() || !rp.Containers[1].Running() || len(rp.IPs) == 0 {
			t.Errorf("observed after the start: %+v", rp)
		}
		if lists := n.mem.Calls().Of("ListPodSandbox", "ListContainers"); len(lists) > 0 {
			t.Errorf("after its own start it asks:\n%s", n.mem.Calls())
		}

		n.rt.Monitor().Invalidate(pod.UID)
		n.mem.ResetCalls()
		n.observe(pod)
		if lists := n.mem.Calls().Of("ListPodSandbox", "ListContainers"); len(lists) != 2 {
			t.Errorf("after a change by another it asks:\n%s", n.mem.Calls())
		}
	})
}

func TestFailedAdditionsAreListed(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{Images: []memory.Image{{Ref: "busybox:1"}}}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(container("b"))
		// The reply is lost: the container is there, and nobody knows its id.
		n.mem.SetIntercept(memory.OnNth("CreateContainer", 2, memory.Fault{LoseReply: memory.ErrReplyLost}))
		n.sync(t.Context(), pod)
		if rp := n.observe(pod); len(rp.Containers) != 2 {
			t.Errorf("observed %d containers, want the one whose reply was lost too", len(rp.Containers))
		}
	})
}
