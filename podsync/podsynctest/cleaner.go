package podsynctest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
)

// CleanerBackend is a podsync.Cleaner and what stands behind it.
type CleanerBackend struct {
	// Cleaner is what is tested.
	Cleaner podsync.Cleaner
	// Put makes the pod hold something of the cleaner's kind.
	Put func(t *testing.T, uid types.UID)
	// Busy, if set, makes what the pod holds impossible to remove until release.
	Busy func(t *testing.T, uid types.UID) (release func())
	// Again, if set, is a new cleaner over the same things, as after a restart.
	Again func(t *testing.T) podsync.Cleaner
}

// Cleaner tests an implementation of podsync.Cleaner. create makes one when no pod
// holds anything; it is called once for each part.
func Cleaner(t *testing.T, create func(t *testing.T) CleanerBackend) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(t *testing.T, b CleanerBackend)
	}{
		{"name is constant", cleanerName},
		{"finds and removes", cleanerRemoves},
		{"what is in use stays until it is not", cleanerBusy},
		{"finds after a restart", cleanerRestart},
		{"an ended context does not block", cleanerEnded},
		{"many at once", cleanerMany},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, create(t)) })
	}
}

func holdsUIDs(t *testing.T, c podsync.Cleaner, want ...types.UID) {
	t.Helper()
	got, err := c.Pods(t.Context())
	if err != nil {
		t.Fatalf("Pods: %v", err)
	}
	got = append([]types.UID{}, got...)
	slices.Sort(got)
	if d := cmp.Diff(append([]types.UID{}, want...), got); d != "" {
		t.Errorf("Pods (-want +got):\n%s", d)
	}
}

func cleanerName(t *testing.T, b CleanerBackend) {
	if a := b.Cleaner.Name(); a == "" || a != b.Cleaner.Name() {
		t.Errorf("Name() = %q, then %q; it must be constant and not empty", a, b.Cleaner.Name())
	}
}

func cleanerRemoves(t *testing.T, b CleanerBackend) {
	holdsUIDs(t, b.Cleaner)
	for _, uid := range []types.UID{"clean-a", "clean-b", "clean-c"} {
		b.Put(t, uid)
	}
	holdsUIDs(t, b.Cleaner, "clean-a", "clean-b", "clean-c")
	for range 2 { // the second time there is nothing to do
		for _, uid := range []types.UID{"clean-b", "never-seen"} {
			if err := b.Cleaner.Remove(t.Context(), uid); err != nil {
				t.Errorf("Remove(%s): %v", uid, err)
			}
		}
		holdsUIDs(t, b.Cleaner, "clean-a", "clean-c")
	}
	b.Put(t, "clean-b")
	holdsUIDs(t, b.Cleaner, "clean-a", "clean-b", "clean-c")
}

func cleanerBusy(t *testing.T, b CleanerBackend) {
	if b.Busy == nil {
		t.Log("left out: nothing of this kind can be in use")
		return
	}
	b.Put(t, "clean-a")
	b.Put(t, "clean-b")
	release := b.Busy(t, "clean-a")
	for range 2 {
		if err := b.Cleaner.Remove(t.Context(), "clean-a"); err == nil {
			t.Error("Remove of what is in use gave no error")
		}
	}
	if err := b.Cleaner.Remove(t.Context(), "clean-b"); err != nil {
		t.Errorf("Remove of another pod: %v", err)
	}
	holdsUIDs(t, b.Cleaner, "clean-a")
	release()
	if err := b.Cleaner.Remove(t.Context(), "clean-a"); err != nil {
		t.Errorf("Remove once it is free: %v", err)
	}
	holdsUIDs(t, b.Cleaner)
}

func cleanerRestart(t *testing.T, b CleanerBackend) {
	if b.Again == nil {
		t.Log("left out: the backend does not outlive its process")
		return
	}
	b.Put(t, "clean-a")
	c := b.Again(t)
	holdsUIDs(t, c, "clean-a")
	if err := c.Remove(t.Context(), "clean-a"); err != nil {
		t.Errorf("Remove after a restart: %v", err)
	}
	holdsUIDs(t, c)
}

func cleanerEnded(t *testing.T, b CleanerBackend) {
	b.Put(t, "clean-a")
	soon(t, "Pods and Remove", func(ctx context.Context) {
		if uids, err := b.Cleaner.Pods(ctx); err == nil && !slices.Contains(uids, "clean-a") {
			t.Errorf("Pods under an ended context: %q and no error", uids)
		}
		_ = b.Cleaner.Remove(ctx, "clean-a") // it may have been quick enough
	})
	if err := b.Cleaner.Remove(t.Context(), "clean-a"); err != nil {
		t.Errorf("Remove after one that was cut off: %v", err)
	}
	holdsUIDs(t, b.Cleaner)
}

func cleanerMany(t *testing.T, b CleanerBackend) {
	uids := []types.UID{"clean-a", "clean-b", "clean-c", "clean-d", "clean-e", "clean-f"}
	for _, uid := range uids {
		b.Put(t, uid)
	}
	var wg sync.WaitGroup
	for _, uid := range uids[1:] {
		wg.Go(func() {
			if _, err := b.Cleaner.Pods(t.Context()); err != nil {
				t.Errorf("Pods: %v", err)
			}
			if err := b.Cleaner.Remove(t.Context(), uid); err != nil {
				t.Errorf("Remove(%s): %v", uid, err)
			}
		})
	}
	wg.Wait()
	holdsUIDs(t, b.Cleaner, "clean-a")
}
