package status_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(s int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(s) * time.Second)) }

func ptr[T any](v T) *T { return &v }

type podOption func(*corev1.Pod)

// newPod makes a pod with the regular containers named.
func newPod(policy corev1.RestartPolicy, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID("uid-1")}}
	p.Spec.RestartPolicy = policy
	for _, n := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n, Image: "img"})
	}
	return p
}

func with(p *corev1.Pod, opts ...podOption) *corev1.Pod {
	for _, o := range opts {
		o(p)
	}
	return p
}

func initContainers(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: n, Image: "img"})
		}
	}
}

func sidecars(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
				Name: n, Image: "img", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways),
			})
		}
	}
}

func containerPolicy(name string, policy corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) podOption {
	return func(p *corev1.Pod) {
		for _, l := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range l {
				if l[i].Name == name {
					l[i].RestartPolicy, l[i].RestartPolicyRules = &policy, rules
				}
			}
		}
	}
}

func onExit(action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
}

// The container statuses of a pod, for the tests of Phase.
func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Started: ptr(true), Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func unstarted(name string) corev1.ContainerStatus {
	s := running(name)
	s.Started, s.Ready = ptr(false), false
	return s
}

func waiting(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
}

func exited(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: false, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code},
	}}
}

func exitedFor(name string, code int32, reason string) corev1.ContainerStatus {
	s := exited(name, code)
	s.State.Terminated.Reason = reason
	return s
}

func waitingAfter(name string, code int32) corev1.ContainerStatus {
	s := waiting(name)
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code}
	return s
}

// runtimePod is a RuntimePod in the making.
type runtimePod struct{ p podsync.RuntimePod }

func inRuntime() *runtimePod {
	return &runtimePod{podsync.RuntimePod{UID: "uid-1", Name: "web", Namespace: "default", ObservedAt: t0}}
}

func (r *runtimePod) sandbox(id string, ready bool, ip string) *runtimePod {
	s := &podsync.RuntimeSandbox{ID: id, Ready: ready, NetworkKnown: true}
	if ip != "" {
		s.IPs = []string{ip}
	}
	if ready && ip != "" && len(r.p.Sandboxes) == 0 {
		r.p.IPs = []string{ip}
	}
	r.p.Sandboxes = append(r.p.Sandboxes, s)
	return r
}

// ready adds the usual sandbox "sb".
func (r *runtimePod) ready() *runtimePod { return r.sandbox("sb", true, "10.1.0.7") }

func (r *runtimePod) add(c podsync.RuntimeContainer) *runtimePod {
	if c.SandboxID == "" {
		c.SandboxID = "sb"
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = t0
	}
	r.p.Containers = append(r.p.Containers, &c)
	return r
}

// runs, ends, created and unknown add instances, newest first.
func (r *runtimePod) runs(name, id string) *runtimePod {
	return r.add(podsync.RuntimeContainer{ID: id, Name: name, State: podsync.ContainerRunning, StartedAt: t0.Add(time.Second)})
}

func (r *runtimePod) ends(name, id string, code int32, reason string) *runtimePod {
	return r.add(podsync.RuntimeContainer{
		ID: id, Name: name, State: podsync.ContainerExited,
		StartedAt: t0.Add(time.Second), FinishedAt: t0.Add(2 * time.Second), ExitCode: code, Reason: reason,
	})
}

func (r *runtimePod) created(name, id string) *runtimePod {
	return r.add(podsync.RuntimeContainer{ID: id, Name: name, State: podsync.ContainerCreated})
}

func (r *runtimePod) unknown(name, id string) *runtimePod {
	return r.add(podsync.RuntimeContainer{ID: id, Name: name, State: podsync.ContainerUnknown})
}

func (r *runtimePod) waits(name, reason, message string) *runtimePod {
	if r.p.Waiting == nil {
		r.p.Waiting = map[string]podsync.WaitingReason{}
	}
	r.p.Waiting[name] = podsync.WaitingReason{Reason: reason, Message: message}
	return r
}

func (r *runtimePod) probe(name, id string, started, ready bool) *runtimePod {
	if r.p.Probes == nil {
		r.p.Probes = map[string]podsync.ProbeResult{}
	}
	r.p.Probes[name] = podsync.ProbeResult{ContainerID: id, Started: started, Ready: ready}
	return r
}

func (r *runtimePod) done() *podsync.RuntimePod { return &r.p }

// find returns a status by name.
func find(t *testing.T, l []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	t.Helper()
	for _, s := range l {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no status of container %q", name)
	return corev1.ContainerStatus{}
}

func findCondition(t *testing.T, s corev1.PodStatus, typ corev1.PodConditionType) corev1.PodCondition {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == typ {
			return c
		}
	}
	t.Fatalf("no condition %q", typ)
	return corev1.PodCondition{}
}

// computeAfter computes several times, each with the result of the one before.
func computeAfter(ins ...status.Input) corev1.PodStatus {
	var s corev1.PodStatus
	for i, in := range ins {
		if i > 0 {
			prev := s
			in.Previous = &prev
		}
		s = status.Compute(in)
	}
	return s
}
