package status_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

func TestEnded_Rejected(t *testing.T) {
	tests := []struct {
		name string
		out  podsync.Outcome
		want phaseOf
	}{
		{"reject", podsync.Reject("OutOfcpu", "node has %d CPUs", 2), phaseOf{failed, "OutOfcpu", "Pod was rejected: node has 2 CPUs"}},
		{"fail", podsync.Fail("BadSpec", errors.New("no")), phaseOf{failed, "BadSpec", "Pod was rejected: no"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink := &status.MemorySink{}
			m := status.New(status.Options{Sinks: []status.Sink{sink}})
			s := syncOf(newPod(always, "a"), inRuntime(), 0)
			m.Ended(t.Context(), s, podsync.PhaseAdmit, podsync.Wait(time.Minute, "RoomWanted", "later"))
			for range 2 {
				m.Ended(t.Context(), s, podsync.PhaseAdmit, tt.out)
			}
			// Phases that follow have nothing to add.
			why := podsync.WithTermination(podsync.Termination{Deleted: true, Phase: failed, Reason: "x"})
			status.Final(m).Run(t.Context(), syncOf(newPod(always, "a"), inRuntime(), 5, why))
			got, _ := m.Get("uid-1")
			if diff := cmp.Diff(tt.want, phased(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.ContainerStatuses)+len(got.Conditions) != 0 || got.QOSClass != corev1.PodQOSBestEffort || got.StartTime == nil {
				t.Errorf("status of a rejected pod: %+v", got)
			}
			if err := m.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			w := sink.Writes("uid-1")
			if len(w) != 1 || !w[0].Finished {
				t.Errorf("%d writes, the last %+v; want one, finished", len(w), w)
			}
		})
	}
}

// STA-11, the status' part: a pod refused while it runs from before becomes
// Failed when its containers are stopped.
func TestCase_STA_11_RefusedWhileRunning(t *testing.T) {
	m := status.New(status.Options{})
	pod := with(newPod(always, "a"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{status.ConfigSourceAnnotation: "file"}
		p.Status.Phase = run
	})
	m.Ended(t.Context(), syncOf(pod, inRuntime().ready().runs("a", "1"), 0), podsync.PhaseAdmit, podsync.Reject("OutOfpods", "too many"))
	if s, _ := m.Get("uid-1"); s.Phase != run {
		t.Errorf("phase %s while it runs", s.Phase)
	}
	why := podsync.WithTermination(podsync.Termination{Phase: failed, Reason: "OutOfpods", Message: "too many"})
	if o := status.Final(m).Run(t.Context(), syncOf(pod, inRuntime().sandbox("sb", false, "").ends("a", "1", 137, "Error"), 5, why)); o.Stops() {
		t.Fatalf("final: %v", o)
	}
	s, _ := m.Get("uid-1")
	if diff := cmp.Diff(phaseOf{failed, "OutOfpods", "too many"}, phased(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := describe(s.ContainerStatuses[0]); got != "terminated Error 137, restarts 0" {
		t.Errorf("container is %s", got)
	}
}

func TestEnded_Waiting(t *testing.T) {
	pull := podsync.WithReason("ErrImagePull", errors.New("registry: 404"))
	type shown struct{ Container, Condition string }
	calm := shown{"waiting ContainerCreating, restarts 0", "False PodSandboxNotReady: the pod has no sandbox"}
	network := shown{`waiting NetworkNotReady "no cni", restarts 0`, "False NetworkNotReady: no cni"}
	tests := []struct {
		name  string
		phase podsync.Phase
		out   podsync.Outcome
		want  shown
	}{
		{"wait", podsync.PhaseSync, podsync.Wait(0, "NetworkNotReady", "no cni"), network},
		{"wait in admission", podsync.PhaseAdmit, podsync.Wait(0, "NetworkNotReady", "no cni"), network},
		{"retry with a reason", podsync.PhaseSync, podsync.Retry(pull), shown{`waiting ErrImagePull "registry: 404", restarts 0`, "False ErrImagePull: registry: 404"}},
		{"retry without a reason", podsync.PhaseSync, podsync.Retry(errors.New("EIO")), shown{`waiting ContainerCreating "EIO", restarts 0`, "False PodSandboxNotReady: EIO"}},
		{"continue", podsync.PhaseSync, podsync.Continue(), calm},
		{"done", podsync.PhaseSync, podsync.Done("X"), calm},
		{"terminating has no say", podsync.PhaseTerminating, podsync.Wait(0, "X", "x"), calm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := status.New(status.Options{})
			s := syncOf(newPod(always, "a"), inRuntime(), 0)
			look := func() shown {
				t.Helper()
				got, ok := m.Get("uid-1")
				if !ok || got.Phase != pending {
					t.Fatalf("status is %+v, %v", got.Phase, ok)
				}
				return shown{describe(got.ContainerStatuses[0]), short(findCondition(t, got, corev1.PodReadyToStartContainers))}
			}
			status.Publish(m).Run(t.Context(), s)
			m.Ended(t.Context(), s, tt.phase, tt.out)
			if diff := cmp.Diff(tt.want, look()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// The next run has begun, or was canceled: it holds still.
			status.Publish(m).Run(t.Context(), s)
			m.Ended(t.Context(), s, tt.phase, podsync.FromErr(context.Canceled))
			if diff := cmp.Diff(tt.want, look()); diff != "" {
				t.Errorf("after a canceled run (-want +got):\n%s", diff)
			}
			m.Ended(t.Context(), s, podsync.PhaseSync, podsync.Continue())
			if diff := cmp.Diff(calm, look()); diff != "" {
				t.Errorf("when it has passed (-want +got):\n%s", diff)
			}
		})
	}
}

// What a run learned of the runtime is said at its end, not by the next run.
func TestEnded_FollowsTheRuntime(t *testing.T) {
	m := status.New(status.Options{})
	s := syncOf(newPod(always, "a"), inRuntime(), 0)
	status.Publish(m).Run(t.Context(), s)
	s.SetRuntime(inRuntime().ready().done())
	m.Refresh(s)
	got, _ := m.Get("uid-1")
	if c := findCondition(t, got, corev1.PodReadyToStartContainers); c.Status != corev1.ConditionTrue {
		t.Errorf("PodReadyToStartContainers is %s after Refresh", short(c))
	}
	s.SetRuntime(inRuntime().ready().runs("a", "1").done())
	m.Ended(t.Context(), s, podsync.PhaseSync, podsync.Continue())
	if got, _ := m.Get("uid-1"); got.Phase != run {
		t.Errorf("phase %s after a run that started the container", got.Phase)
	}
}

func TestEnded_TerminatedFinishes(t *testing.T) {
	sink := &status.MemorySink{}
	m := status.New(status.Options{Sinks: []status.Sink{sink}})
	pod := newPod(never, "a")
	ts := at(1)
	pod.DeletionTimestamp = &ts
	s := syncOf(pod, inRuntime().ends("a", "1", 0, ""), 2, podsync.WithTermination(podsync.Termination{Deleted: true}))
	status.Final(m).Run(t.Context(), s)
	m.Ended(t.Context(), s, podsync.PhaseTerminating, podsync.Continue())
	m.Ended(t.Context(), s, podsync.PhaseTerminated, podsync.Retry(errors.New("busy")))
	flags := func() (out [2]bool) {
		t.Helper()
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := sink.Writes("uid-1")
		last := w[len(w)-1]
		return [2]bool{last.Finished, last.Deleting}
	}
	if got := flags(); got != [2]bool{false, true} {
		t.Errorf("finished, deleting = %v before the terminated phase is done", got)
	}
	m.Ended(t.Context(), s, podsync.PhaseTerminated, podsync.Continue())
	if got := flags(); got != [2]bool{true, true} {
		t.Errorf("finished, deleting = %v, want both", got)
	}
}

func TestOptions_RuntimeNameAndHostIPs(t *testing.T) {
	ips := []string(nil)
	m := status.New(status.Options{
		HostIPs:     func() []string { return ips },
		RuntimeName: func() string { return "containerd" },
	})
	s := syncOf(newPod(always, "a"), inRuntime().ready().runs("a", "1"), 0)
	status.Publish(m).Run(t.Context(), s)
	ips = []string{"192.0.2.1"} // gets known later
	status.Publish(m).Run(t.Context(), s)
	got, _ := m.Get("uid-1")
	if got.HostIP != "192.0.2.1" || got.ContainerStatuses[0].ContainerID != "containerd://1" {
		t.Errorf("hostIP %q, containerID %q", got.HostIP, got.ContainerStatuses[0].ContainerID)
	}
}
