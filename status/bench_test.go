package status_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/status/statustest"
)

// threeContainers is a running pod with an init container, and its runtime state.
func threeContainers() (*corev1.Pod, *podsync.RuntimePod) {
	pod := with(newPod(always, "a", "b", "c"), initContainers("i"))
	r := inRuntime().ready()
	for _, n := range []string{"a", "b", "c"} {
		r.runs(n, n)
	}
	return pod, r.ends("i", "i", 0, "Completed").done()
}

// The status stage of a pod of which nothing changed. To stay under 1 µs and 2
// allocations.
func BenchmarkPublish_Unchanged(b *testing.B) {
	pod, r := threeContainers()
	m := status.New(status.Options{Sinks: []status.Sink{&status.MemorySink{}}})
	stage := status.Publish(m)
	s := podsync.NewSync(pod, podsync.WithRuntimePod(r))
	ctx := b.Context()
	stage.Run(ctx, s)
	b.ReportAllocs()
	for b.Loop() {
		stage.Run(ctx, s)
	}
}

func BenchmarkPublish_RuntimeLookedAtAgain(b *testing.B) {
	pod, r := threeContainers()
	m := status.New(status.Options{})
	stage := status.Publish(m)
	s := podsync.NewSync(pod, podsync.WithRuntimePod(r))
	other := *r
	ctx := b.Context()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.SetRuntime([]*podsync.RuntimePod{r, &other}[i%2])
		stage.Run(ctx, s)
	}
}

func BenchmarkCompute(b *testing.B) {
	pod, r := threeContainers()
	s := status.Compute(status.Input{Pod: pod, Runtime: r, Now: at(0)})
	b.ReportAllocs()
	for b.Loop() {
		status.Compute(status.Input{Pod: pod, Runtime: r, Previous: &s, Now: at(1)})
	}
}

func BenchmarkFileSink(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(fmt.Sprintf("durable=%v", durable), func(b *testing.B) {
			k := &status.FileSink{Dir: b.TempDir(), Durable: durable}
			r := statustest.Record(0)
			b.ReportAllocs()
			for b.Loop() {
				if err := k.Patch(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A guard on BenchmarkPublish_Unchanged that every test run checks.
func TestPublish_UnchangedHardlyAllocates(t *testing.T) {
	pod, r := threeContainers()
	stage := status.Publish(status.New(status.Options{}))
	s := podsync.NewSync(pod, podsync.WithRuntimePod(r))
	if n := testing.AllocsPerRun(100, func() { stage.Run(t.Context(), s) }); n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
}
