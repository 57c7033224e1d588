package status_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/status"
)

func TestSummary(t *testing.T) {
	waitingFor := func(name, reason string) corev1.ContainerStatus {
		s := waiting(name)
		s.State.Waiting.Reason = reason
		return s
	}
	times := func(n int32, s corev1.ContainerStatus) corev1.ContainerStatus {
		s.RestartCount = n
		return s
	}
	signalled := func(name string, sig int32) corev1.ContainerStatus {
		s := exited(name, 0)
		s.State.Terminated.Signal = sig
		return s
	}
	deleting := func(p *corev1.Pod) { ts := at(0); p.DeletionTimestamp = &ts }
	said := func(phase corev1.PodPhase, reason string) podOption {
		return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = phase, reason }
	}
	shows := func(init, regular css) podOption {
		return func(p *corev1.Pod) { p.Status.InitContainerStatuses, p.Status.ContainerStatuses = init, regular }
	}
	one := func() *corev1.Pod { return newPod(always, "a") }
	two := func() *corev1.Pod { return newPod(always, "a", "b") }
	withInit := func() *corev1.Pod { return with(one(), initContainers("i", "j")) }
	withSidecar := func() *corev1.Pod { return with(one(), sidecars("s")) }
	tests := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"no status", one(), "0/1 Pending 0"},
		{"pending", with(one(), said(pending, "")), "0/1 Pending 0"},
		{"creating", with(one(), said(pending, ""), shows(nil, css{waitingFor("a", "ContainerCreating")})), "0/1 ContainerCreating 0"},
		{"running", with(one(), said(run, ""), shows(nil, css{running("a")})), "1/1 Running 0"},
		{"running, not ready", with(one(), said(run, ""), shows(nil, css{unstarted("a")})), "0/1 Running 0"},
		{"one of two crash-loops", with(two(), said(run, ""), shows(nil, css{times(1, running("a")), times(3, waitingFor("b", "CrashLoopBackOff"))})), "1/2 CrashLoopBackOff 4"},
		{"the first of the spec has the last word", with(two(), said(pending, ""), shows(nil, css{waitingFor("a", "ErrImagePull"), waitingFor("b", "ContainerCreating")})), "0/2 ErrImagePull 0"},
		{"completed", with(one(), said(succeeded, ""), shows(nil, css{exitedFor("a", 0, "Completed")})), "0/1 Completed 0"},
		{"one completed, the other runs, ready", with(two(), said(run, ""), shows(nil, css{exitedFor("a", 0, "Completed"), running("b")}), setCondition(corev1.PodReady, "True")), "1/2 Running 0"},
		{"one completed, the other runs, pod not ready", with(two(), said(run, ""), shows(nil, css{exitedFor("a", 0, "Completed"), running("b")})), "1/2 NotReady 0"},
		{"failed", with(one(), said(failed, ""), shows(nil, css{exitedFor("a", 1, "Error")})), "0/1 Error 0"},
		{"exit code without a reason", with(one(), said(failed, ""), shows(nil, css{exited("a", 3)})), "0/1 ExitCode:3 0"},
		{"signal without a reason", with(one(), said(failed, ""), shows(nil, css{signalled("a", 9)})), "0/1 Signal:9 0"},
		{"rejected", with(withInit(), said(failed, "OutOfcpu")), "0/1 OutOfcpu 0"},
		{"evicted", with(one(), said(failed, "Evicted")), "0/1 Evicted 0"},
		{"terminating", with(one(), said(run, ""), shows(nil, css{running("a")}), deleting), "1/1 Terminating 0"},
		{"deleted and ended", with(one(), said(succeeded, ""), shows(nil, css{exitedFor("a", 0, "Completed")}), deleting), "0/1 Completed 0"},

		{"first init runs", with(withInit(), said(pending, ""), shows(css{running("i"), waitingFor("j", "PodInitializing")}, css{waitingFor("a", "PodInitializing")})), "0/1 Init:0/2 0"},
		{"second init runs", with(withInit(), said(pending, ""), shows(css{exitedFor("i", 0, "Completed"), running("j")}, css{waitingFor("a", "PodInitializing")})), "0/1 Init:1/2 0"},
		{"init fails", with(withInit(), said(pending, ""), shows(css{times(2, exitedFor("i", 1, "Error")), waitingFor("j", "PodInitializing")}, css{waitingFor("a", "PodInitializing")})), "0/1 Init:Error 2"},
		{"init exits without a reason", with(withInit(), said(pending, ""), shows(css{exited("i", 7)}, nil)), "0/1 Init:ExitCode:7 0"},
		{"init crash-loops", with(withInit(), said(pending, ""), shows(css{times(2, waitingFor("i", "CrashLoopBackOff"))}, nil)), "0/1 Init:CrashLoopBackOff 2"},
		{"init image missing", with(withInit(), said(pending, ""), shows(css{waitingFor("i", "ImagePullBackOff")}, nil)), "0/1 Init:ImagePullBackOff 0"},
		{"initialised", with(withInit(), said(pending, ""), shows(css{times(2, exitedFor("i", 0, "Completed")), exitedFor("j", 0, "Completed")}, css{waitingFor("a", "PodInitializing")})), "0/1 PodInitializing 0"},
		{"running after init", with(withInit(), said(run, ""), shows(css{times(2, exitedFor("i", 0, "Completed")), exitedFor("j", 0, "Completed")}, css{times(1, running("a"))})), "1/1 Running 1"},
		{"sidecar starts", with(withSidecar(), said(pending, ""), shows(css{unstarted("s")}, css{waitingFor("a", "PodInitializing")})), "0/2 Init:0/1 0"},
		{"sidecar and main run", with(withSidecar(), said(run, ""), shows(css{times(2, running("s"))}, css{times(1, running("a"))})), "2/2 Running 3"},
		{"sidecar fails beside a main, initialised", with(withSidecar(), said(run, ""), shows(css{times(2, waitingFor("s", "CrashLoopBackOff"))}, css{running("a")}), setCondition(corev1.PodInitialized, "True")), "1/2 Init:CrashLoopBackOff 2"},
		{"failed for want of room while it initialises", with(withInit(), said(failed, "DeadlineExceeded"), shows(css{waitingFor("i", "PodInitializing")}, nil)), "0/1 DeadlineExceeded 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ready, word, restarts := status.Summary(tt.pod)
			if got := fmt.Sprintf("%s %s %d", ready, word, restarts); got != tt.want {
				t.Errorf("Summary = %q, want %q", got, tt.want)
			}
		})
	}
}
