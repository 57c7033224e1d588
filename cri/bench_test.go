package cri_test

import (
	"fmt"
	"testing"

	"github.com/podsync/sdk/cri"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podsynctest"
)

func newRuntime(b testing.TB, mem *memory.Runtime) *cri.Runtime {
	b.Helper()
	rt, err := cri.New(cri.Options{Runtime: mem, Images: mem, Node: nodeWithLogs(b)})
	if err != nil {
		b.Fatal(err)
	}
	return rt
}

// BenchmarkSyncNothing is the stage for a running pod of three containers whose
// state is known.
func BenchmarkSyncNothing(b *testing.B) {
	mem := memory.New(memory.Options{})
	defer mem.Shutdown()
	rt := newRuntime(b, mem)
	s := podsync.NewSync(podsynctest.Pod(container("b"), container("c")))
	stage := rt.Sync()
	for range 3 {
		stage.Run(b.Context(), s)
	}
	b.ReportAllocs()
	for b.Loop() {
		if out := stage.Run(b.Context(), s); out.Kind() != podsync.KindContinue {
			b.Fatal(out)
		}
	}
}

// BenchmarkStart is what this package adds to the runtime's own work when a pod
// of one container starts.
func BenchmarkStart(b *testing.B) {
	mem := memory.New(memory.Options{NoLogs: true, Record: -1})
	defer mem.Shutdown()
	rt := newRuntime(b, mem)
	stage := rt.Sync()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		s := podsync.NewSync(podsynctest.Pod(podsynctest.Named(fmt.Sprintf("pod%d", n))))
		if out := stage.Run(b.Context(), s); out.Kind() != podsync.KindContinue {
			b.Fatal(out)
		}
	}
}

func BenchmarkObserveKnown(b *testing.B) {
	mem := memory.New(memory.Options{})
	defer mem.Shutdown()
	rt := newRuntime(b, mem)
	pod := podsynctest.Pod()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.Monitor().Observe(b.Context(), pod.UID); err != nil {
			b.Fatal(err)
		}
	}
}
