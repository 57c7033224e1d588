package cgroups_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
	"github.com/podsync/sdk/podsync"
)

// fake records calls; err fails Ensure and Remove.
type fake struct {
	cgroups.Noop
	parent string
	err    error
	calls  []string
}

func (f *fake) Ensure(context.Context, *corev1.Pod) (string, error) {
	f.calls = append(f.calls, "ensure")
	return f.parent, f.err
}

func (f *fake) Update(context.Context, *corev1.Pod) error {
	f.calls = append(f.calls, "update")
	return f.err
}

func (f *fake) ReduceCPU(context.Context, types.UID) error {
	f.calls = append(f.calls, "reduce")
	return nil
}

func (f *fake) Remove(context.Context, types.UID) error {
	f.calls = append(f.calls, "remove")
	return f.err
}

func TestEnsureStage(t *testing.T) {
	dead := &podsync.RuntimePod{Sandboxes: []*podsync.RuntimeSandbox{{}}}
	ready := &podsync.RuntimePod{Sandboxes: []*podsync.RuntimeSandbox{{Ready: true}}}
	for _, tt := range []struct {
		name    string
		fake    fake
		runtime *podsync.RuntimePod
		kind    podsync.Kind
		reason  string
		calls   string
	}{
		{name: "new pod", fake: fake{parent: "/kubepods/podu"}, kind: podsync.KindContinue, calls: "[ensure]"},
		{name: "running pod", fake: fake{parent: "/kubepods/podu"}, runtime: ready, kind: podsync.KindContinue, calls: "[ensure]"},
		{name: "its sandbox died", fake: fake{parent: "/kubepods/podu"}, runtime: dead, kind: podsync.KindContinue, calls: "[update ensure]"},
		{name: "cgroups off", kind: podsync.KindSkip, reason: "CgroupsOff", calls: "[ensure]"},
		{name: "fails", fake: fake{err: errors.New("no space")}, kind: podsync.KindRetry, reason: "FailedCreatePodContainer", calls: "[ensure]"},
		{name: "canceled", fake: fake{err: fmt.Errorf("x: %w", context.Canceled)}, kind: podsync.KindCanceled, calls: "[ensure]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := podsync.NewSync(cgroupstest.Pod("u", "", ""), podsync.WithRuntimePod(tt.runtime))
			st := cgroups.Ensure(&tt.fake)
			if st.Name() != podsync.StageCgroup {
				t.Errorf("name %q", st.Name())
			}
			out := st.Run(t.Context(), s)
			if out.Kind() != tt.kind || out.Reason() != tt.reason {
				t.Errorf("outcome %v, want %v(%s)", out, tt.kind, tt.reason)
			}
			if got := fmt.Sprint(tt.fake.calls); got != tt.calls {
				t.Errorf("calls %s, want %s", got, tt.calls)
			}
			parent, ok := podsync.CgroupParent.Get(s)
			if want := tt.kind == podsync.KindContinue; ok != want || parent != tt.fake.parent {
				t.Errorf("CgroupParent %q, %v", parent, ok)
			}
		})
	}
}

func TestRemoveStage(t *testing.T) {
	f := &fake{}
	st := cgroups.Remove(f)
	if st.Name() != podsync.StageCgroupRemove {
		t.Errorf("name %q", st.Name())
	}
	s := podsync.NewSync(cgroupstest.Pod("u", "", ""))
	if out := st.Run(t.Context(), s); out.Kind() != podsync.KindContinue {
		t.Errorf("outcome %v", out)
	}
	f.err = errors.New("busy")
	if out := st.Run(t.Context(), s); out.Kind() != podsync.KindRetry {
		t.Errorf("outcome %v, want Retry", out)
	}
}

func TestCase_CGR_13_CleanerKeepsWhileInUse(t *testing.T) {
	used, failed := true, error(nil)
	f := &fake{}
	c := cgroups.Cleaner(f, func(context.Context, types.UID) (bool, error) { return used, failed })
	check := func(wantErr bool, want string) {
		t.Helper()
		f.calls = nil
		err := c.Remove(t.Context(), "u")
		if (err != nil) != wantErr || wantErr && !errors.Is(err, cgroups.ErrInUse) {
			t.Errorf("Remove: %v", err)
		}
		if got := fmt.Sprint(f.calls); got != want {
			t.Errorf("calls %s, want %s", got, want)
		}
	}
	check(true, "[reduce]")
	used, failed = false, errors.New("mount table unreadable")
	check(true, "[reduce]")
	failed = nil
	check(false, "[remove]")
	if c := cgroups.Cleaner(f, nil); c.Name() == "" || c.Remove(t.Context(), "u") != nil {
		t.Error("a cleaner without inUse does not remove")
	}
}

func TestNoop(t *testing.T) {
	var m cgroups.Noop
	parent, err := m.Ensure(t.Context(), cgroupstest.Pod("u", "", ""))
	uids, lerr := m.List(t.Context())
	if err := errors.Join(err, lerr, m.Update(t.Context(), nil), m.Remove(t.Context(), "u"), m.ReduceCPU(t.Context(), "u"), m.RefreshTiers(t.Context(), nil)); err != nil || parent != "" || uids != nil {
		t.Errorf("%q, %v, %v", parent, uids, err)
	}
}

func BenchmarkEnsureStageNoop(b *testing.B) {
	m, err := cgroups.NewDir(b.TempDir(), cgroups.Options{})
	if err != nil {
		b.Fatal(err)
	}
	st := cgroups.Ensure(m)
	s := podsync.NewSync(cgroupstest.Pod("u", "100m", ""))
	b.ReportAllocs()
	for b.Loop() {
		if out := st.Run(b.Context(), s); out.Kind() != podsync.KindContinue {
			b.Fatal(out)
		}
	}
}
