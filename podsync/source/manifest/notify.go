package manifest

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// op is what happened to a name in a watched directory.
type op int

const (
	// opComplete: the file is there and nobody is writing it any more: it was
	// renamed or linked into place, or its writer closed it.
	opComplete op = iota + 1
	// opPartial: the file was made or written to; its writer may not be done.
	opPartial
	// opGone: the name is no longer there.
	opGone
	// opLost: events were lost, or the directory itself is gone.
	opLost
)

type event struct {
	name string // the base name, "" for opLost
	op   op
}

// notifier watches one directory, without its sub-directories.
type notifier interface {
	// events is closed by close.
	events() <-chan event
	// closesReported tells whether an opComplete follows when a writer is done.
	closesReported() bool
	// close ends the watch and waits for its goroutine.
	close()
}

// fsnotifier works on every system, and cannot tell when a writer is done.
type fsnotifier struct {
	w    *fsnotify.Watcher
	ch   chan event
	done chan struct{}
	wg   sync.WaitGroup
}

func newFSNotifier(dir string) (notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close() // the first error says more
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	n := &fsnotifier{w: w, ch: make(chan event, 256), done: make(chan struct{})}
	n.wg.Go(func() { n.run(dir) })
	return n, nil
}

func (n *fsnotifier) events() <-chan event { return n.ch }

func (n *fsnotifier) closesReported() bool { return false }

func (n *fsnotifier) close() {
	close(n.done)
	_ = n.w.Close() // nothing is left to do about it
	n.wg.Wait()
}

func (n *fsnotifier) run(dir string) {
	defer close(n.ch)
	for {
		var e event
		select {
		case <-n.done:
			return
		case _, ok := <-n.w.Errors:
			if !ok {
				return
			}
			e = event{op: opLost}
		case f, ok := <-n.w.Events:
			if !ok {
				return
			}
			if e = translate(dir, f); e.op == 0 {
				continue
			}
		}
		select {
		case n.ch <- e:
		case <-n.done:
			return
		}
	}
}

func translate(dir string, f fsnotify.Event) event {
	name := filepath.Base(f.Name)
	switch {
	case filepath.Clean(f.Name) == filepath.Clean(dir):
		if f.Has(fsnotify.Remove) || f.Has(fsnotify.Rename) {
			return event{op: opLost}
		}
		return event{}
	case f.Has(fsnotify.Remove), f.Has(fsnotify.Rename):
		return event{name, opGone}
	case f.Has(fsnotify.Create), f.Has(fsnotify.Write):
		return event{name, opPartial}
	default:
		return event{}
	}
}
