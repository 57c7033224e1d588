package volumes_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

// What every sync of a running pod costs: three volumes are up, two of them made
// of objects, nothing changed.
func BenchmarkMountNothingToDo(b *testing.B) {
	for _, copied := range []bool{false, true} {
		b.Run(fmt.Sprintf("copy=%v", copied), func(b *testing.B) {
			n := newNode(b)
			n.objects.SetConfigMap("app", map[string]string{"a": "1"})
			n.objects.SetSecret("key", map[string]string{"k": "1"})
			pod := volumestest.Pod("u-1", emptyDir("a", ""), configMap("b", "app", false), secret("c", "key"))
			n.mount(pod)
			if copied {
				pod = pod.DeepCopy()
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.m.Mount(ctx, pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStagesNothingToDo(b *testing.B) {
	n := newNode(b)
	n.objects.SetSecret("key", map[string]string{"k": "1"})
	s := podsync.NewSync(volumestest.Pod("u-1", emptyDir("a", ""), emptyDir("b", "Memory"), secret("c", "key")))
	for _, stage := range []podsync.Stage{volumes.Dirs(n.options.Layout), volumes.Mounted(n.m)} {
		b.Run(stage.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if out := stage.Run(b.Context(), s); out.Kind() != podsync.KindContinue {
					b.Fatal(out)
				}
			}
		})
	}
}

// A pod's volumes up and down again: emptyDir, configMap and a secret in memory.
func BenchmarkMountAndRemove(b *testing.B) {
	n := newRealNode(b, "")
	n.objects.SetConfigMap("app", map[string]string{"a": "1"})
	n.objects.SetSecret("key", map[string]string{"k": "1"})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		uid := types.UID(fmt.Sprint("u-", i))
		n.mount(volumestest.Pod(uid, emptyDir("a", ""), configMap("b", "app", false), secret("c", "key")))
		n.remove(uid)
	}
}
