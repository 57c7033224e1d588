package tracing_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
	"github.com/podsync/sdk/podsync/tracing"
)

func Example() {
	spans := tracetest.NewSpanRecorder()
	tr := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	p, err := podsync.NewBuilder(podsync.PhaseSync).
		Append(podsynctest.Script("status")).
		Append(podsynctest.Script("network", podsync.Wait(0, "NetworkNotReady", "no cni"))).
		Observe(tr.Stage).Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	p.Run(context.Background(), podsync.NewSync(podsynctest.Pod()))
	for _, s := range spans.Ended() {
		fmt.Println(s.Name(), s.Attributes()[1].Value.AsString(), s.Status().Code)
	}
	// Output:
	// status Continue Unset
	// network Wait Unset
}
