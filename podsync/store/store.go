// Package store keeps what must outlive the agent's process: allocations,
// backoffs, ranges of user ids, records of pulled images, pods and statuses that
// are not delivered yet.
//
// Memory is the store of tests and of agents that need not remember. What is
// remembered is the business of who stores it: a store knows buckets, keys and
// bytes.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrNotFound is what Get returns, wrapped, when nothing is stored under a key.
var ErrNotFound = errors.New("not found")

// Store is a durable map of buckets, keys and values. Every call is atomic: after
// a crash a value is the one of before or the one of after. What was Put is there
// after a restart once Put has returned. Implementations are safe for concurrent
// use, and values are copied in both directions.
//
// Buckets come into being with their first Put; names of buckets and keys are
// not empty and otherwise free. An error other than ErrNotFound means that the
// store is not usable at the moment; callers go on without it and try again.
type Store interface {
	// Get returns the value, or an error that is ErrNotFound.
	Get(ctx context.Context, bucket, key string) ([]byte, error)
	// Put stores the value in place of an earlier one.
	Put(ctx context.Context, bucket, key string, value []byte) error
	// Delete removes the value; it is no error when there is none.
	Delete(ctx context.Context, bucket, key string) error
	// List returns all of a bucket; a bucket that does not exist is empty.
	List(ctx context.Context, bucket string) (map[string][]byte, error)
}

// Memory is a Store that forgets everything with the process. The zero value is
// ready for use. Safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	buckets map[string]map[string][]byte
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, bucket, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.buckets[bucket][key]
	if !ok {
		return nil, fmt.Errorf("store: %s/%s: %w", bucket, key, ErrNotFound)
	}
	return bytes.Clone(v), nil
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, bucket, key string, value []byte) error {
	if bucket == "" || key == "" {
		return fmt.Errorf("store: put %q/%q: the names of bucket and key must not be empty", bucket, key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buckets == nil {
		m.buckets = map[string]map[string][]byte{}
	}
	if m.buckets[bucket] == nil {
		m.buckets[bucket] = map[string][]byte{}
	}
	m.buckets[bucket][key] = bytes.Clone(value)
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, bucket, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.buckets[bucket], key)
	return nil
}

// List implements Store.
func (m *Memory) List(_ context.Context, bucket string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string][]byte, len(m.buckets[bucket]))
	for k, v := range m.buckets[bucket] {
		all[k] = bytes.Clone(v)
	}
	return all, nil
}
