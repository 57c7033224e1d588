package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/metrics"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/source"
)

func Example() {
	m := metrics.New()
	p, err := podsync.NewBuilder(podsync.PhaseSync).Append(podsynctest.Script("status")).Observe(m.Stage).Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Run(context.Background(), podsync.NewSync(podsynctest.Pod()))
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	for _, f := range families {
		fmt.Println(f.GetName(), f.GetMetric()[0].GetHistogram().GetSampleCount(), err)
	}
	// Output: podsync_stage_duration_seconds 1 <nil>
}

func TestProbe(t *testing.T) {
	m := metrics.New()
	pod := podsynctest.Pod()
	m.Probe(pod, "app", "Liveness", "successful", time.Millisecond)
	m.Probe(pod, "app", "Liveness", "failed", time.Millisecond)
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	count := func() (n int) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "prober_probe_total" {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	if n := count(); n != 2 {
		t.Errorf("%d counters, want one for each result", n)
	}
	agent, err := podsync.New(podsync.Config{Plan: &podsync.Plan{}, Sources: []podsync.Source{&source.Memory{}}})
	if err != nil {
		t.Fatal(err)
	}
	m.WatchPods(agent)
	if n := count(); n != 0 {
		t.Errorf("%d counters of a pod that is gone", n)
	}
}
