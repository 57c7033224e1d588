package podsync

import "fmt"

// AnyKey is a Key or a List, for declarations.
type AnyKey interface {
	// Name returns the name given at creation, for messages.
	Name() string
	manyWriters() bool
}

// Key is a typed slot of a Sync with one writer: one stage of a pipeline
// provides it, any later stage may read it. A key's identity is its pointer, so
// that two keys of one name never collide. Values live for one run only; what
// must outlive a run belongs into a backend or a store.
type Key[T any] struct{ name string }

// NewKey makes a key. The name is for people and should be that of the variable.
func NewKey[T any](name string) *Key[T] { return &Key[T]{name: name} }

// Name returns the key's name.
func (k *Key[T]) Name() string { return k.name }

func (k *Key[T]) manyWriters() bool { return false }

// Get returns the value an earlier stage set in this run. ok is false when none
// did, be it because the stage was skipped, mocked or removed.
func (k *Key[T]) Get(s *Sync) (v T, ok bool) {
	if x, found := s.load(k); found {
		return x.(T), true
	}
	return v, false
}

// Set stores the value for later stages of this run. It fails when the stage
// did not declare that it provides the key.
func (k *Key[T]) Set(s *Sync, v T) error {
	if err := s.mayWrite(k); err != nil {
		return err
	}
	s.store(k, v)
	return nil
}

// List is a typed slot of a Sync that many stages add to: mounts, environment,
// annotations. Values live for one run.
type List[T any] struct{ name string }

// NewList makes a list. The name is for people and should be that of the variable.
func NewList[T any](name string) *List[T] { return &List[T]{name: name} }

// Name returns the list's name.
func (l *List[T]) Name() string { return l.name }

func (l *List[T]) manyWriters() bool { return true }

// Get returns what earlier stages added in this run. The caller must not change it.
func (l *List[T]) Get(s *Sync) []T {
	x, _ := s.load(l)
	v, _ := x.([]T)
	return v
}

// Append adds values for later stages of this run. It fails when the stage did
// not declare that it provides the list.
func (l *List[T]) Append(s *Sync, v ...T) error {
	if err := s.mayWrite(l); err != nil {
		return err
	}
	s.update(l, func(old any) any {
		o, _ := old.([]T)
		return append(o[:len(o):len(o)], v...)
	})
	return nil
}

// UndeclaredWriteError says that a stage wrote a key that it did not declare.
type UndeclaredWriteError struct{ Stage, Key string }

// Error names the stage, the key and the fix.
func (e *UndeclaredWriteError) Error() string {
	return fmt.Sprintf("stage %q writes %s without declaring it; add it to Provides of its Declare", e.Stage, e.Key)
}

// Provided tells whether a stage of this run has written the key or list.
func Provided(s *Sync, k AnyKey) bool {
	_, ok := s.load(k)
	return ok
}
