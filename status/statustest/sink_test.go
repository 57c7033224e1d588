package statustest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/status/statustest"
)

// A sink that has no Loader is held to the rest of the contract.
type forgetful struct{ k status.MemorySink }

func (f *forgetful) Patch(ctx context.Context, r status.Record) error { return f.k.Patch(ctx, r) }
func (f *forgetful) Delete(ctx context.Context, r status.Ref) error   { return f.k.Delete(ctx, r) }

func TestSink(t *testing.T) {
	statustest.Sink(t, func(*testing.T) status.Sink { return &forgetful{} })
	statustest.Sink(t, func(*testing.T) status.Sink { return &status.MemorySink{} })
}

// In a test of a sink of one's own this is the whole test.
func ExampleSink() {
	test := func(t *testing.T) {
		statustest.Sink(t, func(t *testing.T) status.Sink { return &status.FileSink{Dir: t.TempDir()} })
	}
	fmt.Printf("%T\n", test)
	// Output: func(*testing.T)
}
