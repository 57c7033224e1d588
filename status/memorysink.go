package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MemorySink is a Sink in memory that records every write, and so is for tests: it
// only grows. (A Manager without any sink keeps statuses in memory, too.) The zero
// value is ready to use. Safe for concurrent use; set the functions before the
// first.
type MemorySink struct {
	// OnPatch and OnDelete, when set, are called before a write takes place, and
	// may block or fail it. A failed write is not recorded.
	OnPatch  func(ctx context.Context, r Record) error
	OnDelete func(ctx context.Context, r Ref) error

	mu     sync.Mutex
	writes []Record
	last   map[types.UID]Record
}

var (
	_ Sink   = (*MemorySink)(nil)
	_ Loader = (*MemorySink)(nil)
)

// Patch records the status.
func (k *MemorySink) Patch(ctx context.Context, r Record) error {
	if k.OnPatch != nil {
		if err := k.OnPatch(ctx, r); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("record status of pod %s: %w", r.Ref, err)
	}
	r.Status = *r.Status.DeepCopy()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[types.UID]Record{}
	}
	k.last[r.UID] = r
	k.writes = append(k.writes, r)
	return nil
}

// Delete forgets the pod's last status. The writes made before stay recorded.
func (k *MemorySink) Delete(ctx context.Context, r Ref) error {
	if k.OnDelete != nil {
		if err := k.OnDelete(ctx, r); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete status of pod %s: %w", r, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, r.UID)
	return nil
}

// Load returns the last status of each pod, by namespace, name and UID.
func (k *MemorySink) Load(ctx context.Context) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("load statuses: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]Record, 0, len(k.last))
	for _, r := range k.last {
		out = append(out, copyRecord(r))
	}
	slices.SortFunc(out, byRef)
	return out, nil
}

// Writes returns every status written for the pod, in order.
func (k *MemorySink) Writes(uid types.UID) []Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Record
	for _, r := range k.writes {
		if r.UID == uid {
			out = append(out, copyRecord(r))
		}
	}
	return out
}

// Last returns the status that holds for the pod; ok is false when none was
// written or it was deleted.
func (k *MemorySink) Last(uid types.UID) (s corev1.PodStatus, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, ok := k.last[uid]
	return *r.Status.DeepCopy(), ok
}

func copyRecord(r Record) Record {
	r.Status = *r.Status.DeepCopy()
	return r
}

func byRef(a, b Record) int {
	return strings.Compare(a.Namespace+"\x00"+a.Name+"\x00"+string(a.UID), b.Namespace+"\x00"+b.Name+"\x00"+string(b.UID))
}
