package podsynctest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// patience is how long a backend may take to notice something before a
// conformance suite fails it.
const patience = 20 * time.Second

// eventually waits until ok returns nil, and fails the test with its last error
// when that takes too long.
func eventually(t *testing.T, ok func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %v", patience, err)
		}
	}
}

// inBackground runs fn until the test ends, or until the function that it returns
// is called, and fails the test when fn does not end with its context or ends
// with an error that is not its context's.
func inBackground(t *testing.T, what string, fn func(ctx context.Context) error) (stop func()) {
	t.Helper()
	// The test's own context ends before its cleanups begin.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-done:
			t.Errorf("%s ended before its context: %v", what, err)
			cancel()
			return
		default:
		}
		cancel()
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		case <-timer.C:
			t.Errorf("%s has not ended %v after its context", what, patience)
		}
	}
	t.Cleanup(stop)
	return stop
}

// soon fails the test when fn does not return although its context has ended.
func soon(t *testing.T, what string, fn func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s under an ended context has not returned for %v", what, patience)
	}
}
