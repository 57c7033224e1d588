package podsynctest

import (
	"context"
	"sync"

	"github.com/podsync/sdk/podsync"
)

// ScriptStage is a stage that plays given outcomes. Safe for concurrent use.
type ScriptStage struct {
	name string

	mu    sync.Mutex
	outs  []podsync.Outcome
	calls []*podsync.Sync
	undos int
}

// Script returns a stage that plays the outcomes in turn and then repeats the
// last; with none it continues.
func Script(name string, outs ...podsync.Outcome) *ScriptStage {
	return &ScriptStage{name: name, outs: outs}
}

var (
	_ podsync.Stage  = (*ScriptStage)(nil)
	_ podsync.Undoer = (*ScriptStage)(nil)
)

// Name returns the name given.
func (s *ScriptStage) Name() string { return s.name }

// Run plays the next outcome.
func (s *ScriptStage) Run(_ context.Context, sy *podsync.Sync) podsync.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, sy)
	if len(s.outs) == 0 {
		return podsync.Continue()
	}
	o := s.outs[0]
	if len(s.outs) > 1 {
		s.outs = s.outs[1:]
	}
	return o
}

// Undo counts.
func (s *ScriptStage) Undo(context.Context, *podsync.Sync) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undos++
	return nil
}

// Calls returns the state of each run so far.
func (s *ScriptStage) Calls() []*podsync.Sync {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*podsync.Sync(nil), s.calls...)
}

// Undos returns how often the stage was undone.
func (s *ScriptStage) Undos() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.undos
}

// BlockStage is a stage that holds each run until it is released.
type BlockStage struct {
	name string
	// Entered receives the context of each run that reached the stage.
	Entered chan context.Context
	// Release lets one run go on with the outcome sent.
	Release chan podsync.Outcome
}

// NewBlock returns a stage that holds runs at a known point, to test what
// happens to a pod meanwhile. A run also ends when its context does.
func NewBlock(name string) *BlockStage {
	return &BlockStage{name: name, Entered: make(chan context.Context, 16), Release: make(chan podsync.Outcome)}
}

var _ podsync.Stage = (*BlockStage)(nil)

// Name returns the name given.
func (b *BlockStage) Name() string { return b.name }

// Run waits for Release or the end of the context.
func (b *BlockStage) Run(ctx context.Context, _ *podsync.Sync) podsync.Outcome {
	select {
	case b.Entered <- ctx:
	default:
	}
	select {
	case o := <-b.Release:
		return o
	case <-ctx.Done():
		return podsync.FromErr(ctx.Err())
	}
}
