package cgroups

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestCase_CGR_10_ProcessDiesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tree := newV2(t, Options{}, "cpu memory pids")
		if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
			t.Fatal(err)
		}
		child := v2root + "/kubepods/burstable/poda/c1"
		if err := tree.mkdir(child); err != nil {
			t.Fatal(err)
		}
		tree.procs[child], tree.dieAfter = []int{0, 4242}, 2*time.Second
		start := time.Now()
		if err := h.Remove(t.Context(), "a"); err == nil {
			t.Fatal("a process of an unknown namespace was taken for dead")
		} else if busy := (*BusyError)(nil); !errors.As(err, &busy) {
			t.Fatalf("Remove: %v, want a *BusyError", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("Remove gave up after %v, want its 5 s", took)
		}
		tree.procs[child], tree.killed = []int{4242}, map[int]time.Time{}
		if err := h.Remove(t.Context(), "a"); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if tree.count("rmdir") > 500 {
			t.Errorf("%d rmdirs in some seconds: a busy loop", tree.count("rmdir"))
		}
	})
}

func TestCase_CGR_10_RmdirBusyThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tree := newV2(t, Options{}, "cpu memory pids")
		if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
			t.Fatal(err)
		}
		busy := 3
		tree.fail = func(op, dir, _ string) error {
			if op == "rmdir" && strings.HasSuffix(dir, "/poda") && busy > 0 {
				busy--
				return syscall.EBUSY
			}
			return nil
		}
		if err := h.Remove(t.Context(), "a"); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if uids, _ := h.List(t.Context()); len(uids) != 0 {
			t.Errorf("left: %v", uids)
		}
	})
}

func TestRemoveStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tree := newV2(t, Options{}, "cpu memory pids")
		if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
			t.Fatal(err)
		}
		tree.procs[v2root+"/kubepods/burstable/poda"], tree.dieAfter = []int{4242}, time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := h.Remove(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Remove: %v after %v", err, time.Since(start))
		}
	})
}

func TestRemoveNeverKillsItself(t *testing.T) {
	h, tree := newV2(t, Options{}, "cpu memory pids")
	if _, err := h.Ensure(t.Context(), burstable("a", "1")); err != nil {
		t.Fatal(err)
	}
	tree.procs[v2root+"/kubepods/burstable/poda"] = []int{os.Getpid(), 4242}
	if err := h.Remove(t.Context(), "a"); err == nil || tree.count("kill") != 0 {
		t.Errorf("Remove: %v with %d kills", err, tree.count("kill"))
	}
}
