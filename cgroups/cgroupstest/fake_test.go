package cgroupstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
)

// A fake that replaces nothing is as good as what stands behind it.
func TestFakeConforms(t *testing.T) {
	cgroupstest.Run(t, func(t *testing.T) func() cgroups.Manager {
		root := t.TempDir()
		return func() cgroups.Manager {
			m, err := cgroups.NewDir(root, cgroups.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return &cgroupstest.Fake{Next: m}
		}
	})
}

func TestFakeReplaces(t *testing.T) {
	mine := errors.New("mine")
	f := &cgroupstest.Fake{
		EnsureFunc:       func(context.Context, *corev1.Pod) (string, error) { return "/here", mine },
		UpdateFunc:       func(context.Context, *corev1.Pod) error { return mine },
		ReduceCPUFunc:    func(context.Context, types.UID) error { return mine },
		RemoveFunc:       func(context.Context, types.UID) error { return mine },
		ListFunc:         func(context.Context) ([]types.UID, error) { return []types.UID{"a"}, mine },
		RefreshTiersFunc: func(context.Context, []*corev1.Pod) error { return mine },
	}
	ctx := t.Context()
	parent, err := f.Ensure(ctx, nil)
	uids, listErr := f.List(ctx)
	for name, err := range map[string]error{
		"Ensure": err, "Update": f.Update(ctx, nil), "ReduceCPU": f.ReduceCPU(ctx, "a"),
		"Remove": f.Remove(ctx, "a"), "List": listErr, "RefreshTiers": f.RefreshTiers(ctx, nil),
	} {
		if !errors.Is(err, mine) {
			t.Errorf("%s: %v, want the function's error", name, err)
		}
	}
	if parent != "/here" || len(uids) != 1 {
		t.Errorf("Ensure %q, List %q; want the functions' answers", parent, uids)
	}
}

func ExampleFake() {
	f := &cgroupstest.Fake{RemoveFunc: func(context.Context, types.UID) error { return errors.New("busy") }}
	parent, err := f.Ensure(context.Background(), cgroupstest.Pod("a", "", ""))
	fmt.Printf("%q %v\n", parent, err)
	fmt.Println(f.Remove(context.Background(), "a"))
	// Output:
	// "" <nil>
	// busy
}
