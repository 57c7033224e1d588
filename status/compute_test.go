package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

// phaseOf is phase, reason and message in one.
type phaseOf struct {
	Phase           corev1.PodPhase
	Reason, Message string
}

func phased(s corev1.PodStatus) phaseOf { return phaseOf{s.Phase, s.Reason, s.Message} }

// Pinned behaviour 47, and the rules on terminal phases.
func TestCompute_Phase(t *testing.T) {
	runs := func() *podsync.RuntimePod { return inRuntime().ready().runs("a", "1").done() }
	ended := func(code int32) *podsync.RuntimePod {
		return inRuntime().sandbox("sb", false, "").ends("a", "1", code, "").done()
	}
	said := func(p corev1.PodPhase, reason, message string) *corev1.PodStatus {
		return &corev1.PodStatus{Phase: p, Reason: reason, Message: message}
	}
	evicted := podsync.Termination{Evicted: true, Phase: failed, Reason: "Evicted", Message: "disk is full"}
	apiFailed := func(p *corev1.Pod) { p.Status = *said(failed, "Old", "from the API") }
	tests := []struct {
		name string
		in   status.Input
		want phaseOf
	}{
		{"47 reason stays with the phase", status.Input{Pod: newPod(always, "a"), Runtime: runs(), Previous: said(run, "Why", "because")}, phaseOf{run, "Why", "because"}},
		{"47 reason goes with the phase", status.Input{Pod: newPod(always, "a"), Runtime: runs(), Previous: said(pending, "Why", "because")}, phaseOf{run, "", ""}},
		{"47 no way from Failed to Running", status.Input{Pod: newPod(always, "a"), Runtime: runs(), Previous: said(failed, "Evicted", "m")}, phaseOf{failed, "Evicted", "m"}},
		{"47 no way from Failed to Succeeded", status.Input{Pod: newPod(never, "a"), Runtime: ended(0), Previous: said(failed, "X", "m"), Terminal: true}, phaseOf{failed, "X", "m"}},
		{"47 no way from Succeeded to Failed", status.Input{Pod: newPod(never, "a"), Runtime: ended(1), Previous: said(succeeded, "", ""), Terminal: true, Termination: evicted}, phaseOf{succeeded, "", ""}},
		{"47 the API's terminal phase counts too", status.Input{Pod: with(newPod(always, "a"), apiFailed), Runtime: runs(), Previous: said(run, "", "")}, phaseOf{failed, "Old", "from the API"}},
		{"done but not stopped: held", status.Input{Pod: newPod(never, "a"), Runtime: inRuntime().ready().ends("a", "1", 0, "").done(), Previous: said(run, "", "")}, phaseOf{run, "", ""}},
		{"done at the first look: held", status.Input{Pod: newPod(never, "a"), Runtime: inRuntime().ready().ends("a", "1", 0, "").done()}, phaseOf{pending, "", ""}},
		{"done and stopped", status.Input{Pod: newPod(never, "a"), Runtime: ended(0), Previous: said(run, "", ""), Terminal: true}, phaseOf{succeeded, "", ""}},
		{"done badly and stopped", status.Input{Pod: newPod(never, "a"), Runtime: ended(2), Previous: said(run, "", ""), Terminal: true}, phaseOf{failed, "", ""}},
		{"STA-06 evicted, still running", status.Input{Pod: newPod(always, "a"), Runtime: runs(), Previous: said(run, "", ""), Terminating: true, Termination: evicted}, phaseOf{run, "", ""}},
		{"STA-06 called stopped, yet running", status.Input{Pod: newPod(always, "a"), Runtime: runs(), Previous: said(run, "", ""), Terminal: true, Termination: evicted}, phaseOf{run, "", ""}},
		{"STA-06 evicted and stopped, well", status.Input{Pod: newPod(always, "a"), Runtime: ended(0), Previous: said(run, "", ""), Terminal: true, Termination: evicted}, phaseOf{failed, "Evicted", "disk is full"}},
		{"deleted, ended well", status.Input{Pod: newPod(always, "a"), Runtime: ended(0), Previous: said(run, "", ""), Terminal: true, Termination: podsync.Termination{Deleted: true}}, phaseOf{succeeded, "", ""}},
		{"deleted, killed", status.Input{Pod: newPod(always, "a"), Runtime: ended(137), Previous: said(run, "", ""), Terminal: true, Termination: podsync.Termination{Deleted: true}}, phaseOf{failed, "", ""}},
		{"71 deleted before anything started", status.Input{Pod: newPod(always, "a"), Runtime: inRuntime().done(), Previous: said(pending, "", ""), Terminal: true, Termination: podsync.Termination{Deleted: true}}, phaseOf{failed, "", ""}},
		{"71 static pod keeps its phase", status.Input{Pod: newPod(always, "a"), Static: true, Runtime: ended(0), Previous: said(run, "", ""), Terminal: true, Termination: podsync.Termination{Deleted: true}}, phaseOf{run, "", ""}},
		{"static pod that was given up", status.Input{Pod: newPod(always, "a"), Static: true, Runtime: ended(0), Previous: said(run, "", ""), Terminal: true, Termination: evicted}, phaseOf{failed, "Evicted", "disk is full"}},
		{"static pod that completed", status.Input{Pod: newPod(never, "a"), Static: true, Runtime: ended(0), Previous: said(run, "", ""), Terminal: true}, phaseOf{succeeded, "", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Now = at(0)
			s := status.Compute(tt.in)
			if diff := cmp.Diff(tt.want, phased(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if status.Terminal(s.Phase) && len(s.Conditions) > 0 {
				for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
					if got := findCondition(t, s, c); got.Status != corev1.ConditionFalse {
						t.Errorf("%s is %s in phase %s", c, got.Status, s.Phase)
					}
				}
			}
		})
	}
}

func TestCase_STA_02_FailedStaysFailed(t *testing.T) {
	pod := newPod(never, "a")
	stopped := podsync.Termination{Deleted: true}
	s := computeAfter(
		status.Input{Pod: pod, Runtime: inRuntime().ready().ends("a", "1", 1, "Error").done(), Now: at(1)},
		status.Input{Pod: pod, Runtime: inRuntime().sandbox("sb", false, "").ends("a", "1", 1, "Error").done(), Terminal: true, Now: at(2)},
		status.Input{Pod: pod, Runtime: inRuntime().done(), Terminating: true, Termination: stopped, Now: at(3)},
		status.Input{Pod: pod, Runtime: inRuntime().done(), Terminal: true, Termination: stopped, Now: at(4)},
	)
	if s.Phase != failed {
		t.Errorf("phase %s, want Failed", s.Phase)
	}
	if got := describe(s.ContainerStatuses[0]); got != "terminated Error 1, restarts 0" {
		t.Errorf("container is %s, want its own end", got)
	}
}

func TestCase_ADM_06_RejectedKeepsWhatItHad(t *testing.T) {
	pod := newPod(always, "a")
	pod.Generation = 2
	pod.Status.QOSClass = corev1.PodQOSBurstable
	pod.Status.Phase = pending
	got := status.Rejected(pod, nil, "OutOfmemory", "Pod was rejected: too little memory", at(3))
	want := corev1.PodStatus{
		ObservedGeneration: 2, Phase: failed, Reason: "OutOfmemory", Message: "Pod was rejected: too little memory",
		QOSClass: corev1.PodQOSBurstable, StartTime: ptr(at(3)),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCase_ADM_07_RejectedPodAfterARestart(t *testing.T) {
	pod := newPod(always, "a")
	pod.Status = corev1.PodStatus{Phase: failed, Reason: "OutOfcpu", Message: "Pod was rejected", QOSClass: corev1.PodQOSBestEffort, StartTime: ptr(at(0))}
	for _, in := range []status.Input{
		{Pod: pod, Runtime: inRuntime().done(), Now: at(9)},
		{Pod: pod, Runtime: inRuntime().done(), Now: at(9), Terminating: true},
		{Pod: pod, Runtime: inRuntime().done(), Now: at(9), Terminal: true, Termination: podsync.Termination{Phase: failed, Reason: "Other"}},
		{Pod: pod, Runtime: &podsync.RuntimePod{}, Now: at(9), Terminal: true},
	} {
		if diff := cmp.Diff(pod.Status, status.Compute(in)); diff != "" {
			t.Errorf("terminating %v, terminal %v (-want +got):\n%s", in.Terminating, in.Terminal, diff)
		}
	}
	if diff := cmp.Diff(pod.Status, status.Rejected(pod, nil, "Other", "again", at(9))); diff != "" {
		t.Errorf("rejected again (-want +got):\n%s", diff)
	}
}

// Pinned behaviour 70: which containers of a stopped pod get an end made up.
func TestCompute_EndsOfContainers(t *testing.T) {
	three := func() *corev1.Pod { return with(newPod(always, "a", "b"), initContainers("i", "j", "k")) }
	unknownEnd := "terminated ContainerStatusUnknown 137"
	tests := []struct {
		name string
		pod  *corev1.Pod
		seen *runtimePod // while it ran
		last *runtimePod // when it is stopped
		want map[string]string
	}{
		{"nothing was ever started", newPod(always, "a"), inRuntime(), inRuntime(), map[string]string{"a": unknownEnd + ", restarts 0"}},
		{"pod had not been initialised", three(), inRuntime().ready().runs("j", "2").ends("i", "1", 0, "Completed"), inRuntime(), map[string]string{
			"i": "terminated Completed 0, ready, restarts 0",
			"j": unknownEnd + ", restarts 0, last ContainerStatusUnknown 137",
			"k": "waiting PodInitializing, restarts 0",
			"a": "waiting PodInitializing, restarts 0",
		}},
		{"not even the first init container showed a start", three(), inRuntime(), inRuntime(), map[string]string{
			"i": unknownEnd + ", restarts 0",
			"j": "waiting PodInitializing, restarts 0",
			"a": "waiting PodInitializing, restarts 0",
		}},
		{"pod had been initialised", with(newPod(always, "a", "b"), initContainers("i")), inRuntime().ready().runs("a", "2").ends("i", "1", 0, "Completed"), inRuntime().sandbox("sb", false, "").ends("a", "2", 143, "Error").ends("i", "1", 0, "Completed"), map[string]string{
			"i": "terminated Completed 0, ready, restarts 0",
			"a": "terminated Error 143, restarts 0",
			"b": unknownEnd + ", restarts 0",
		}},
		{"sidecar had started", with(newPod(always, "a"), sidecars("s")), inRuntime().ready().runs("s", "1"), inRuntime().sandbox("sb", false, "").ends("s", "1", 0, "Completed"), map[string]string{
			"s": "terminated Completed 0, restarts 0",
			"a": "waiting PodInitializing, restarts 0",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := computeAfter(
				status.Input{Pod: tt.pod, Runtime: tt.seen.done(), Now: at(1)},
				status.Input{Pod: tt.pod, Runtime: tt.last.done(), Terminal: true, Termination: podsync.Termination{Deleted: true}, Now: at(2)},
			)
			got := map[string]string{}
			for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				if _, ok := tt.want[c.Name]; ok {
					got[c.Name] = describe(c)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !status.Terminal(s.Phase) {
				t.Errorf("phase %s of a deleted pod", s.Phase)
			}
		})
	}
}

// Pinned behaviour 48, and what goes for pods on the pod network.
func TestCompute_Addresses(t *testing.T) {
	onHost := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	said := func(ips ...string) *corev1.PodStatus {
		s := &corev1.PodStatus{}
		for _, ip := range ips {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
		}
		return s
	}
	tests := []struct {
		name     string
		pod      *corev1.Pod
		ips      []string
		host     []string
		previous *corev1.PodStatus
		want     []string
	}{
		{"pod network", newPod(always, "a"), []string{"10.0.0.5"}, []string{"192.0.2.1"}, nil, []string{"10.0.0.5"}},
		{"dual stack, node prefers IPv6", newPod(always, "a"), []string{"10.0.0.5", "fd00::5"}, []string{"2001:db8::1"}, nil, []string{"fd00::5", "10.0.0.5"}},
		{"dual stack, node prefers IPv4", newPod(always, "a"), []string{"fd00::5", "10.0.0.5"}, []string{"192.0.2.1"}, nil, []string{"10.0.0.5", "fd00::5"}},
		{"dual stack, node unknown", newPod(always, "a"), []string{"fd00::5", "10.0.0.5"}, nil, nil, []string{"fd00::5", "10.0.0.5"}},
		{"one of each family, rubbish left out, usual writing", newPod(always, "a"), []string{"x", "010.0.0.5", "10.0.0.6", "FD00:0::5"}, nil, nil, []string{"10.0.0.5", "fd00::5"}},
		{"stopped pod keeps its addresses", newPod(always, "a"), nil, []string{"192.0.2.1"}, said("10.0.0.5"), []string{"10.0.0.5"}},
		{"new sandbox, new address", newPod(always, "a"), []string{"10.0.0.6"}, nil, said("10.0.0.5"), []string{"10.0.0.6"}},
		{"48 host network", with(newPod(always, "a"), onHost), nil, []string{"192.0.2.1"}, nil, []string{"192.0.2.1"}},
		{"48 host network, node's address changed", with(newPod(always, "a"), onHost), nil, []string{"192.0.2.9"}, said("192.0.2.1"), []string{"192.0.2.1"}},
		{"48 host network, second family appears", with(newPod(always, "a"), onHost), nil, []string{"192.0.2.9", "2001:db8::1"}, said("192.0.2.1"), []string{"192.0.2.1", "2001:db8::1"}},
		{"48 host network, node's address unknown", with(newPod(always, "a"), onHost), nil, nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := inRuntime().ready()
			r.p.IPs = tt.ips
			s := status.Compute(status.Input{Pod: tt.pod, Runtime: r.done(), HostIPs: tt.host, Previous: tt.previous, Now: at(0)})
			var got []string
			for _, ip := range s.PodIPs {
				got = append(got, ip.IP)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("podIPs (-want +got):\n%s", diff)
			}
			if len(got) > 0 && s.PodIP != got[0] {
				t.Errorf("podIP %q, want %q", s.PodIP, got[0])
			}
		})
	}
	s := status.Compute(status.Input{Pod: newPod(always, "a"), HostIPs: []string{"192.0.2.1", "192.0.2.2", "fd00::1"}, Now: at(0)})
	if diff := cmp.Diff([]corev1.HostIP{{IP: "192.0.2.1"}, {IP: "fd00::1"}}, s.HostIPs); diff != "" || s.HostIP != "192.0.2.1" {
		t.Errorf("hostIP %q, hostIPs (-want +got):\n%s", s.HostIP, diff)
	}
	s = status.Compute(status.Input{Pod: newPod(always, "a"), Previous: &s, Now: at(1)})
	if s.HostIP != "192.0.2.1" || len(s.HostIPs) != 2 {
		t.Errorf("the node's addresses got lost: %q %v", s.HostIP, s.HostIPs)
	}
}

func TestCompute_StartTime(t *testing.T) {
	now := metav1.NewTime(t0.Add(1700 * time.Millisecond))
	pod := newPod(always, "a")
	s := computeAfter(status.Input{Pod: pod, Now: now}, status.Input{Pod: pod, Now: at(60)})
	if want := at(1); !s.StartTime.Time.Equal(want.Time) {
		t.Errorf("startTime %v, want %v: when the pod was first seen, in whole seconds", s.StartTime, want)
	}
	pod.Status.StartTime = ptr(at(-100))
	if s := status.Compute(status.Input{Pod: pod, Now: now}); !s.StartTime.Time.Equal(at(-100).Time) {
		t.Errorf("startTime %v, want that of the API", s.StartTime)
	}
}

func TestDeadline(t *testing.T) {
	limited := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr(int64(30)) }
	tests := []struct {
		name   string
		pod    *corev1.Pod
		start  *metav1.Time
		now    int
		want   time.Duration
		wantOK bool
	}{
		{"no deadline", newPod(always, "a"), ptr(at(0)), 60, 0, false},
		{"not started", with(newPod(always, "a"), limited), nil, 60, 0, false},
		{"some left", with(newPod(always, "a"), limited), ptr(at(0)), 10, 20 * time.Second, true},
		{"just over", with(newPod(always, "a"), limited), ptr(at(0)), 30, 0, true},
		{"long over", with(newPod(always, "a"), limited), ptr(at(0)), 300, 0, true},
		{"absurdly long", with(newPod(always, "a"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr(int64(1 << 62)) }), ptr(at(0)), 0, (1 << 33) * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			left, ok := status.Deadline(tt.pod, tt.start, at(tt.now).Time)
			if left != tt.want || ok != tt.wantOK {
				t.Errorf("Deadline = %v, %v; want %v, %v", left, ok, tt.want, tt.wantOK)
			}
		})
	}
}

func TestFinished(t *testing.T) {
	tests := []struct {
		name    string
		pod     *corev1.Pod
		runtime *runtimePod
		want    bool
	}{
		{"running", newPod(never, "a"), inRuntime().ready().runs("a", "1"), false},
		{"done", newPod(never, "a"), inRuntime().ready().ends("a", "1", 0, ""), true},
		{"failed for good", newPod(never, "a"), inRuntime().ready().ends("a", "1", 1, ""), true},
		{"to be restarted", newPod(onFailure, "a"), inRuntime().ready().ends("a", "1", 1, ""), false},
		{"crash-looping", newPod(always, "a"), inRuntime().ready().ends("a", "1", 1, "").waits("a", "CrashLoopBackOff", ""), false},
		{"one of two done", newPod(never, "a", "b"), inRuntime().ready().runs("b", "2").ends("a", "1", 0, ""), false},
		{"done, sidecar runs", with(newPod(never, "a"), sidecars("s")), inRuntime().ready().ends("a", "2", 0, "").runs("s", "1"), false},
		{"init failed for good, sidecar runs", with(newPod(never, "a"), sidecars("s"), initContainers("i")), inRuntime().ready().ends("i", "2", 1, "").runs("s", "1"), true},
		{"nothing started", newPod(never, "a"), inRuntime(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := status.Finished(tt.pod, tt.runtime.done()); got != tt.want {
				t.Errorf("Finished = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIsStatic(t *testing.T) {
	for source, want := range map[string]bool{"": false, "api": false, "file": true, "http": true} {
		p := newPod(always, "a")
		if source != "" {
			p.Annotations = map[string]string{status.ConfigSourceAnnotation: source}
		}
		if got := status.IsStatic(p); got != want {
			t.Errorf("source %q: IsStatic = %v", source, got)
		}
	}
}
