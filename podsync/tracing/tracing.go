// Package tracing makes OpenTelemetry spans of pods' runs: one per run of a
// phase and below it one per stage, so that a trace shows where the time of a
// pod's start went.
//
//	tr := tracing.New(provider)
//	plan.Observe(tr.Stage)
//	agent, err := podsync.New(podsync.Config{Plan: plan, ObserveRun: tr.Run, …})
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/podsync/sdk/podsync"
)

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct{ t trace.Tracer }

// New makes a Tracer whose spans go to the provider.
func New(tp trace.TracerProvider) *Tracer {
	return &Tracer{t: tp.Tracer("github.com/podsync/sdk/podsync")}
}

// Stage is an observer for pipelines: a span per stage, named by the stage.
func (t *Tracer) Stage(ctx context.Context, i podsync.StageInfo, _ *podsync.Sync) (context.Context, func(podsync.Outcome)) {
	name := i.Name
	if i.Undo {
		name = "undo " + name
	}
	ctx, span := t.t.Start(ctx, name, trace.WithAttributes(attribute.String("podsync.phase", string(i.Phase))))
	return ctx, func(o podsync.Outcome) { end(span, o) }
}

// Run is an observer for podsync.Config.ObserveRun: a span per run of a phase,
// with the attributes that the kubelet's spans have.
func (t *Tracer) Run(ctx context.Context, i podsync.StageInfo, s *podsync.Sync) (context.Context, func(podsync.Outcome)) {
	p := s.Pod()
	ctx, span := t.t.Start(ctx, string(i.Phase), trace.WithAttributes(
		attribute.String("k8s.pod.uid", string(p.UID)),
		attribute.String("k8s.pod.name", p.Name),
		attribute.String("k8s.namespace.name", p.Namespace),
		attribute.String("k8s.pod.update_type", string(s.Cause())),
		attribute.Int("podsync.attempt", s.Attempt()),
	))
	return ctx, func(o podsync.Outcome) { end(span, o) }
}

// end closes a span. Only what is a fault of the node marks it as an error: a
// wait, a refusal and an interruption are not.
func end(span trace.Span, o podsync.Outcome) {
	span.SetAttributes(attribute.String("podsync.outcome", o.Kind().String()))
	if r := o.Reason(); r != "" {
		span.SetAttributes(attribute.String("podsync.reason", r))
	}
	if k := o.Kind(); k == podsync.KindRetry || k == podsync.KindFail {
		span.RecordError(o.Err())
		span.SetStatus(codes.Error, o.Message())
	}
	span.End()
}
