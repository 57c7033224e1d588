package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

func probeResults(id string, started bool) map[string]podsync.ProbeResult {
	return map[string]podsync.ProbeResult{"x": {ContainerID: id, Started: started}}
}

// TestStopOrder is RUN-07: sidecars after all others, in reverse among themselves.
func TestStopOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, pod, rt, want string }{
		{"no sidecars", "i:x a b", "S b a", "b a"},
		{"RUN-07 sidecars", "s:s1 s:s2 a b", "S b a s2 s1", "b a s2<b,a s1<b,a,s2"},
		{"RUN-07 b never started", "s:s1 s:s2 a b", "S a s2 s1", "a s2<a s1<a,s2"},
		{"RUN-07 b exited", "s:s1 s:s2 a b", "S b=1 a s2 s1", "a s2<a s1<a,s2"},
		{"RUN-07 still initialising", "s:s1 i:x s:s2 a", "S x s1", "x s1<x"},
		{"later sidecar exited", "s:s1 s:s2 a", "S a s2=1 s1", "a s1<a"},
		{"unknown state counts", "s:s1 a", "S a? s1", "a s1<a"},
		{"ephemeral and unnamed", "s:s1 a e:d", "S d q s1", "d q s1<d,q"},
		{"nothing runs", "s:s1 a", "S a=0 s1=0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := pod(always, tt.pod)
			stops := plan.StopOrder(p, rt(p, tt.rt))
			var got []string
			for _, s := range stops {
				w := s.Name
				for i, j := range s.After {
					w += fmt.Sprintf("%c%s", "<,"[min(i, 1)], stops[j].Name)
				}
				got = append(got, w)
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got %q, want %q", g, tt.want)
			}
		})
	}
}

// TestGrace is entry 35 of the kubelet's tests.
func TestGrace(t *testing.T) {
	t.Parallel()
	sec := func(n int64) *int64 { return &n }
	c := &corev1.Container{LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: sec(10)},
		StartupProbe: &corev1.Probe{TerminationGracePeriodSeconds: sec(20)}}
	for _, tt := range []struct {
		name           string
		deletion, spec *int64
		c              *corev1.Container
		reason         plan.KillReason
		want           time.Duration
	}{
		{"35 nothing set", nil, nil, nil, plan.KillSpecChanged, 2 * time.Second},
		{"35 spec", nil, sec(30), c, plan.KillSpecChanged, 30 * time.Second},
		{"35 floor", nil, sec(0), c, plan.KillSpecChanged, 2 * time.Second},
		{"35 liveness", nil, sec(30), c, plan.KillLiveness, 10 * time.Second},
		{"35 startup", nil, sec(30), c, plan.KillStartup, 20 * time.Second},
		{"35 deletion wins", sec(7), sec(30), c, plan.KillStartup, 7 * time.Second},
		{"probe without its own", nil, sec(30), &corev1.Container{LivenessProbe: &corev1.Probe{}}, plan.KillLiveness, 30 * time.Second},
		{"PRB-03 probe grace 1", nil, sec(300), &corev1.Container{StartupProbe: &corev1.Probe{TerminationGracePeriodSeconds: sec(1)}}, plan.KillStartup, 2 * time.Second},
		{"reset", nil, sec(30), c, plan.KillRestartAll, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{}
			p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds = tt.deletion, tt.spec
			if got := plan.Grace(p, tt.c, tt.reason); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
