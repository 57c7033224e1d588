package manifest

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// unclosedFactor times Settle is how long to wait for the close of a file that
	// has been quiet, where closes are reported.
	unclosedFactor = 10
	// patienceFactor times Settle is how long a file that is written without end
	// is waited for.
	patienceFactor = 40
	// pollInterval is the rescan of a directory that cannot be watched.
	pollInterval = 5 * time.Second
	// maxDrain bounds how many events are taken before what is due is read.
	maxDrain = 1024
)

// follower is one run of a Dir.
type follower struct {
	path           string
	rescan, settle time.Duration
	max            int64
	log            *slog.Logger
	watch          func(dir string) (notifier, error)

	n       notifier    // nil while nothing can be watched
	watched fs.FileInfo // the directory that n watches, nil while that is an ancestor
	awaited string      // the name in that ancestor that leads to path
	warned  bool        // that nothing can be watched

	known    map[string]*known
	pending  map[string]wait // names to look at, each at its time
	fullAt   time.Time       // when to look at everything
	dirFault bool            // the directory could not be read
}

// wait says when to look at a name, and when the waiting began.
type wait struct{ at, since time.Time }

func (f *follower) run(ctx context.Context, changed func([]File)) error {
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.known, f.pending = map[string]*known{}, map[string]wait{}
	defer f.detach()
	f.attach()
	f.fullAt = time.Now().Add(f.interval())
	files := f.scan()
	// The first set decides what is cleaned up, so that it is not made while
	// somebody is still writing.
	for len(f.pending) > 0 && sleep(ctx, time.Until(f.next())) {
		files = append(files, f.due(time.Now())...)
	}
	if ctx.Err() != nil {
		return nil
	}
	changed(sorted(files))

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(max(time.Until(f.next()), 0))
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-f.events():
			f.note(e, ok)
			f.drain()
		case <-timer.C:
		}
		if files := f.due(time.Now()); len(files) > 0 {
			changed(files)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (f *follower) events() <-chan event {
	if f.n == nil {
		return nil
	}
	return f.n.events()
}

func (f *follower) interval() time.Duration {
	if f.n == nil {
		return min(f.rescan, pollInterval)
	}
	return f.rescan
}

// drain takes the events that are already there, so that a burst is one change.
func (f *follower) drain() {
	for range maxDrain {
		select {
		case e, ok := <-f.events():
			f.note(e, ok)
		default:
			return
		}
	}
}

// note decides when to look at what an event names.
func (f *follower) note(e event, ok bool) {
	now := time.Now()
	switch {
	case !ok || e.op == opLost:
		f.detach()
		f.full(now.Add(f.settle))
	case f.watched == nil: // an ancestor is watched
		if e.name == f.awaited {
			f.full(now)
		}
	case e.name == "..data" && e.op != opGone:
		f.full(now)
	case Ignored(e.name):
	case e.op == opComplete:
		f.look(e.name, now, now)
	case e.op == opGone:
		f.look(e.name, now, now.Add(f.settle))
	case !f.n.closesReported():
		f.look(e.name, now, now.Add(f.settle))
	case f.linked(e.name):
		f.look(e.name, now, now)
	default:
		f.look(e.name, now, now.Add(unclosedFactor*f.settle))
	}
}

// linked tells whether a new name was made by linking: no close will follow.
func (f *follower) linked(name string) bool {
	st, err := os.Lstat(filepath.Join(f.path, name))
	return err == nil && (st.Mode()&fs.ModeSymlink != 0 || manyLinks(st))
}

func (f *follower) look(name string, now, at time.Time) {
	w, waiting := f.pending[name]
	if !waiting {
		w.since = now
	}
	if patience := w.since.Add(patienceFactor * f.settle); at.After(patience) {
		at = patience
	}
	w.at = at
	f.pending[name] = w
}

func (f *follower) full(at time.Time) {
	if at.Before(f.fullAt) {
		f.fullAt = at
	}
}

func (f *follower) next() time.Time {
	next := f.fullAt
	for _, w := range f.pending {
		if w.at.Before(next) {
			next = w.at
		}
	}
	return next
}

// due reads what is to be looked at by now.
func (f *follower) due(now time.Time) []File {
	if !now.Before(f.fullAt) {
		f.reattach()
		files := f.scan()
		f.fullAt = time.Now().Add(f.interval())
		return files
	}
	var names []string
	for name, w := range f.pending {
		if !now.Before(w.at) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var files []File
	for _, name := range names {
		delete(f.pending, name)
		if file, ok := f.read(name, true); ok {
			files = append(files, file)
		}
	}
	return files
}

func (f *follower) detach() {
	if f.n != nil {
		f.n.close()
	}
	f.n, f.watched, f.awaited = nil, nil, ""
}

// reattach makes sure that the directory watched is the one at the path now: it
// may have been made, replaced, or a link to it turned elsewhere.
func (f *follower) reattach() {
	if f.n != nil && f.watched != nil {
		if st, err := os.Stat(f.path); err == nil && os.SameFile(st, f.watched) {
			return
		}
	}
	f.detach()
	f.attach()
}

// attach watches the directory or, while there is none, the nearest ancestor.
func (f *follower) attach() {
	dir := filepath.Clean(f.path)
	for {
		n, err := f.watch(dir)
		if err == nil {
			f.n, f.awaited = n, awaited(dir, f.path)
			st, statErr := os.Stat(f.path)
			if dir == filepath.Clean(f.path) {
				f.watched = st
			}
			if (statErr == nil) == (f.watched != nil) {
				f.warned = false
				return
			}
			// It came or went in between.
			f.detach()
			if dir = filepath.Clean(f.path); statErr == nil {
				continue
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			if !f.warned {
				f.log.Warn("directory cannot be watched, changes are found by looking", "path", f.path, "every", f.interval(), "err", err)
			}
			f.warned = true
			return
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return
		}
		dir = parent
	}
}

// awaited returns the first element of the way from ancestor to path.
func awaited(ancestor, path string) string {
	rel, err := filepath.Rel(ancestor, path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(rel, string(filepath.Separator))
	return first
}
