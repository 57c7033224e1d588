package admit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/admit"
	"github.com/podsync/sdk/podsync/store"
)

func sized(request, limit string) *corev1.Pod {
	p := &corev1.Pod{}
	p.UID, p.Name, p.Namespace = "u", "p", "ns"
	p.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request), "example.com/x": resource.MustParse("1")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)},
	}}}
	p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	return p
}

func cpu(p *corev1.Pod) string { return p.Spec.Containers[0].Resources.Requests.Cpu().String() }

func TestAllocationsAreRemembered(t *testing.T) {
	st := &store.Memory{}
	a := &admit.Allocations{Store: st}
	pod := sized("1", "2")
	if got := a.Allocated(t.Context(), pod); got != pod {
		t.Error("with no record a pod is another")
	}
	if err := a.Record(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	again := &admit.Allocations{Store: st} // a new process
	if got := again.Allocated(t.Context(), sized("3", "4")); cpu(got) != "1" || got.Spec.Containers[0].Resources.Limits.Cpu().String() != "2" {
		t.Errorf("given %+v, want what was recorded", got.Spec.Containers[0].Resources)
	}
	if uids, err := again.Cleaner().Pods(t.Context()); err != nil || len(uids) != 1 || uids[0] != "u" {
		t.Errorf("pods with records: %v, %v", uids, err)
	}
	if err := again.Cleaner().Remove(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	if got := again.Allocated(t.Context(), sized("3", "4")); cpu(got) != "3" {
		t.Error("what was forgotten counts")
	}
}

// A record that cannot be read is none.
func TestAllocationsOfNoUse(t *testing.T) {
	for _, raw := range []string{"", "{", `{"version":2}`, `{"version":1,"containers":[]}`} {
		st := &store.Memory{}
		if err := st.Put(t.Context(), "allocated", "u", []byte(raw)); err != nil {
			t.Fatal(err)
		}
		a := &admit.Allocations{Store: st}
		if got := a.Allocated(t.Context(), sized("3", "4")); cpu(got) != "3" {
			t.Errorf("record %q: given %s", raw, cpu(got))
		}
	}
}

// countedStore counts what is written, and fails if asked to.
type countedStore struct {
	store.Memory
	puts int
	err  error
}

func (c *countedStore) Put(ctx context.Context, bucket, key string, v []byte) error {
	c.puts++
	if c.err != nil {
		return c.err
	}
	return c.Memory.Put(ctx, bucket, key, v)
}

func TestAllocationsAreWrittenOnce(t *testing.T) {
	st := &countedStore{}
	a := &admit.Allocations{Store: st}
	for range 3 {
		if err := a.Record(t.Context(), sized("1", "2")); err != nil {
			t.Fatal(err)
		}
	}
	if st.puts != 1 {
		t.Errorf("%d writes of one allocation", st.puts)
	}
	st.err = errors.New("disk full")
	if err := a.Record(t.Context(), sized("2", "2")); err == nil || !strings.Contains(err.Error(), "ns/p(u)") || !errors.Is(err, st.err) {
		t.Errorf("error %v: want one that names the pod and the cause", err)
	}
}

func TestJudge(t *testing.T) {
	room := admit.Fixed(&corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}})
	guaranteed := sized("2", "2")
	guaranteed.Spec.InitContainers = nil
	delete(guaranteed.Spec.Containers[0].Resources.Requests, "example.com/x")
	for _, l := range []corev1.ResourceList{guaranteed.Spec.Containers[0].Resources.Requests, guaranteed.Spec.Containers[0].Resources.Limits} {
		l[corev1.ResourceMemory] = resource.MustParse("1Mi")
	}
	other := sized("2", "2")
	other.UID = "other"
	for _, tt := range []struct {
		name         string
		a            *admit.Allocations
		want         *corev1.Pod
		reason, says string
	}{
		{"fits", &admit.Allocations{Node: room}, sized("2", "4"), "", ""},
		{"does not fit", &admit.Allocations{Node: room}, sized("3", "4"), corev1.PodReasonDeferred, "OutOfcpu"},
		{"larger than the node", &admit.Allocations{Node: room}, sized("30", "40"), corev1.PodReasonDeferred, "OutOfcpu"},
		{"another class", &admit.Allocations{Node: room}, guaranteed, corev1.PodReasonInfeasible, "Guaranteed"},
		{"a site's own reason", &admit.Allocations{Node: room, Infeasible: func(_, _ *corev1.Pod) string { return "no" }}, sized("2", "4"), corev1.PodReasonInfeasible, "no"},
		{"a site's own stage", &admit.Allocations{Stages: []podsync.Stage{podsync.NewStage("x", func(context.Context, *podsync.Sync) podsync.Outcome {
			return podsync.Wait(0, "TooHot", "it is hot")
		})}}, sized("2", "4"), corev1.PodReasonDeferred, "TooHot: it is hot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.a.Judge(t.Context(), tt.want, sized("1", "2"), []*corev1.Pod{other})
			if got.Reason != tt.reason || !strings.Contains(got.Message, tt.says) {
				t.Errorf("got %+v, want %s with %q", got, tt.reason, tt.says)
			}
		})
	}
}
