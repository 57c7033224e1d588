package metrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/metrics"
	"github.com/podsync/sdk/podsync/podsynctest"
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
