package statustest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/status/statustest"
)

func TestFake(t *testing.T) {
	statustest.Sink(t, func(*testing.T) status.Sink {
		k := &status.MemorySink{}
		return &statustest.Fake{PatchFunc: k.Patch, DeleteFunc: k.Delete, LoadFunc: k.Load}
	})
	f := &statustest.Fake{}
	records, loadErr := f.Load(t.Context())
	if err := errors.Join(f.Patch(t.Context(), statustest.Record(0)), f.Delete(t.Context(), statustest.Record(0).Ref), loadErr); err != nil || len(records) > 0 {
		t.Errorf("a fake without functions: %v, %d records", err, len(records))
	}
}

func ExampleFake() {
	f := &statustest.Fake{PatchFunc: func(_ context.Context, r status.Record) error {
		return fmt.Errorf("the server refuses %s", r.Ref)
	}}
	r := statustest.Record(1)
	r.UID = "u"
	fmt.Println(f.Patch(context.Background(), r))
	// Output: the server refuses default/pod-1(u)
}
