// Package metrics counts and times stages and pods for Prometheus.
//
//	m := metrics.New()
//	plan.Observe(m.Stage)
//	registry.MustRegister(m)
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podsync/sdk/podsync"
)

// Metrics is a prometheus.Collector of what it observed:
//
//	podsync_stage_duration_seconds{phase,stage,kind}  how long stages took, by outcome
//	podsync_run_duration_seconds{phase,kind}          how long whole runs took
//	podsync_pods{state}                               the agent's pods, with Pods set
//	podsync_pods_waiting{stage,reason}                pods whose last outcome was Wait or Retry
//
// Safe for concurrent use.
type Metrics struct {
	stage *prometheus.HistogramVec
	run   *prometheus.HistogramVec
	pods  func() []podsync.PodInfo

	podsDesc, waitingDesc *prometheus.Desc
}

var _ prometheus.Collector = (*Metrics)(nil)

// New makes metrics that nothing was observed for yet.
func New() *Metrics {
	buckets := []float64{.0001, .001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	return &Metrics{
		stage: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podsync_stage_duration_seconds", Help: "Duration of one stage for one pod, by its outcome.", Buckets: buckets,
		}, []string{"phase", "stage", "kind"}),
		run: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podsync_run_duration_seconds", Help: "Duration of one run of a phase for one pod, by its outcome.", Buckets: buckets,
		}, []string{"phase", "kind"}),
		podsDesc:    prometheus.NewDesc("podsync_pods", "Pods of the agent by state.", []string{"state"}, nil),
		waitingDesc: prometheus.NewDesc("podsync_pods_waiting", "Pods whose last run stopped, by the stage that stopped it and why.", []string{"stage", "reason"}, nil),
	}
}

// WatchPods makes the pod gauges count what the agent has at each scrape. Call
// it before the metrics are registered.
func (m *Metrics) WatchPods(a *podsync.Agent) { m.pods = a.Pods }

// Stage is an observer for pipelines.
func (m *Metrics) Stage(ctx context.Context, i podsync.StageInfo, _ *podsync.Sync) (context.Context, func(podsync.Outcome)) {
	if i.Undo {
		return ctx, nil
	}
	start := time.Now()
	return ctx, func(o podsync.Outcome) {
		m.stage.WithLabelValues(string(i.Phase), i.Name, o.Kind().String()).Observe(time.Since(start).Seconds())
	}
}

// Run is an observer for podsync.Config.ObserveRun.
func (m *Metrics) Run(ctx context.Context, i podsync.StageInfo, _ *podsync.Sync) (context.Context, func(podsync.Outcome)) {
	start := time.Now()
	return ctx, func(o podsync.Outcome) {
		m.run.WithLabelValues(string(i.Phase), o.Kind().String()).Observe(time.Since(start).Seconds())
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	m.stage.Describe(c)
	m.run.Describe(c)
	if m.pods != nil {
		c <- m.podsDesc
		c <- m.waitingDesc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.stage.Collect(c)
	m.run.Collect(c)
	if m.pods == nil {
		return
	}
	states, waiting := map[string]float64{}, map[[2]string]float64{}
	for _, p := range m.pods() {
		e := p.Explanation
		states[e.State]++
		if e.Kind == podsync.KindWait || e.Kind == podsync.KindRetry {
			waiting[[2]string{e.Stage, e.Reason}]++
		}
	}
	for s, n := range states {
		c <- prometheus.MustNewConstMetric(m.podsDesc, prometheus.GaugeValue, n, s)
	}
	for w, n := range waiting {
		c <- prometheus.MustNewConstMetric(m.waitingDesc, prometheus.GaugeValue, n, w[0], w[1])
	}
}
