// Package metrics counts and times stages and pods for Prometheus.
//
//	m := metrics.New()
//	plan.Observe(m.Stage)
//	registry.MustRegister(m)
package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Metrics is a prometheus.Collector of what it observed:
//
//	podsync_stage_duration_seconds{phase,stage,kind}  how long stages took, by outcome
//	podsync_run_duration_seconds{phase,kind}          how long whole runs took
//	prober_probe_total{probe_type,result,container,pod,namespace,pod_uid}
//	prober_probe_duration_seconds{probe_type,container,pod,namespace}
//	                                                  runs of probes, as the kubelet counts them
//	podsync_pods{state}                               the agent's pods, with Pods set
//	podsync_pods_waiting{stage,reason}                pods whose last outcome was Wait or Retry
//
// Safe for concurrent use.
type Metrics struct {
	stage *prometheus.HistogramVec
	run   *prometheus.HistogramVec
	probe *prometheus.CounterVec
	took  *prometheus.HistogramVec
	pods  func() []podsync.PodInfo

	podsDesc, waitingDesc *prometheus.Desc

	mu     sync.Mutex
	probed map[[2]string]bool // pods that probes were counted for
}

var _ prometheus.Collector = (*Metrics)(nil)

// New makes metrics that nothing was observed for yet.
func New() *Metrics {
	buckets := []float64{.0001, .001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	return &Metrics{
		probed: map[[2]string]bool{},
		stage: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podsync_stage_duration_seconds", Help: "Duration of one stage for one pod, by its outcome.", Buckets: buckets,
		}, []string{"phase", "stage", "kind"}),
		run: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "podsync_run_duration_seconds", Help: "Duration of one run of a phase for one pod, by its outcome.", Buckets: buckets,
		}, []string{"phase", "kind"}),
		probe: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Runs of probes by their result: successful, failed or unknown.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "Duration of runs of probes.", Buckets: []float64{.005, .025, .1, .5, 1, 5, 30},
		}, []string{"probe_type", "container", "pod", "namespace"}),
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

// Probe counts one run of a probe of the pod's container. probeType is "Startup",
// "Liveness" or "Readiness", result "successful", "failed" or "unknown".
func (m *Metrics) Probe(pod *corev1.Pod, container, probeType, result string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock() // so that none is counted while its pod is dropped
	m.probed[[2]string{pod.Namespace, pod.Name}] = true
	m.probe.WithLabelValues(probeType, result, container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	m.took.WithLabelValues(probeType, container, pod.Name, pod.Namespace).Observe(took.Seconds())
}

// forget drops what was counted for pods that the agent no longer has.
func (m *Metrics) forget(pods []podsync.PodInfo) {
	here := make(map[[2]string]bool, len(pods))
	for _, p := range pods {
		here[[2]string{p.Pod.Namespace, p.Pod.Name}] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.probed {
		if !here[k] {
			l := prometheus.Labels{"namespace": k[0], "pod": k[1]}
			m.probe.DeletePartialMatch(l)
			m.took.DeletePartialMatch(l)
			delete(m.probed, k)
		}
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	m.stage.Describe(c)
	m.run.Describe(c)
	m.probe.Describe(c)
	m.took.Describe(c)
	if m.pods != nil {
		c <- m.podsDesc
		c <- m.waitingDesc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.stage.Collect(c)
	m.run.Collect(c)
	var pods []podsync.PodInfo
	if m.pods != nil {
		pods = m.pods()
		m.forget(pods)
	}
	m.probe.Collect(c)
	m.took.Collect(c)
	if m.pods == nil {
		return
	}
	states, waiting := map[string]float64{}, map[[2]string]float64{}
	for _, p := range pods {
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
