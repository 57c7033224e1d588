package statustest

import (
	"context"

	"github.com/podsync/sdk/status"
)

// Fake is a status.Sink and status.Loader made of functions; where they are nil
// it takes everything and has nothing to give back. Limits: it keeps nothing
// itself, so that with a nil LoadFunc an agent that starts again begins anew; a
// status.MemorySink keeps. Set the fields before use.
type Fake struct {
	// PatchFunc is Patch. It is called for different pods at once.
	PatchFunc func(ctx context.Context, r status.Record) error
	// DeleteFunc is Delete.
	DeleteFunc func(ctx context.Context, r status.Ref) error
	// LoadFunc is Load.
	LoadFunc func(ctx context.Context) ([]status.Record, error)
}

var (
	_ status.Sink   = (*Fake)(nil)
	_ status.Loader = (*Fake)(nil)
)

// Patch implements status.Sink.
func (f *Fake) Patch(ctx context.Context, r status.Record) error {
	if f.PatchFunc == nil {
		return ctx.Err()
	}
	return f.PatchFunc(ctx, r)
}

// Delete implements status.Sink.
func (f *Fake) Delete(ctx context.Context, r status.Ref) error {
	if f.DeleteFunc == nil {
		return ctx.Err()
	}
	return f.DeleteFunc(ctx, r)
}

// Load implements status.Loader.
func (f *Fake) Load(ctx context.Context) ([]status.Record, error) {
	if f.LoadFunc == nil {
		return nil, ctx.Err()
	}
	return f.LoadFunc(ctx)
}
