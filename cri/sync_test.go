package cri_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func TestStart(t *testing.T) {
	t.Parallel()
	bubble(t, memory.Options{}, func(t *testing.T, n *node) {
		pod := podsynctest.Pod(podsynctest.Container(corev1.Container{Name: "side"}))
		out := n.sync(t.Context(), pod)
		if d, again := out.RetryAfter(); out.Kind() != podsync.KindContinue || !again || d != 0 {
			t.Errorf("a run that started something ends in %v, again %v %v", out, again, d)
		}
		want := []string{"RunPodSandbox", "PullImage", "CreateContainer", "StartContainer", "CreateContainer", "StartContainer"}
		got := n.mutations()
		if len(got) > 1 && got[0] == "PullImage" { // beside the sandbox
			got[0], got[1] = got[1], got[0]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		if out := n.settle(pod); out.String() != "Continue" {
			t.Errorf("a pod that runs gives %v", out)
		}
		n.mem.ResetCalls()
		before := n.observe(pod)
		if out := n.settle(pod); out.String() != "Continue" {
			t.Errorf("a pod that runs gives %v", out)
		}
		if n.observe(pod) != before || len(n.mem.Calls()) > 0 {
			t.Errorf("nothing happened, and %d calls were made", len(n.mem.Calls()))
		}
		if d := cmp.Diff([]string{"app", "side"}, n.running()); d != "" {
			t.Error(d)
		}
		n.remove(pod)
		if l := n.mem.Leftovers(); len(l) > 0 {
			t.Errorf("left over: %v", l)
		}
	})
}
