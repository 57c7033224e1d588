package source

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source/manifest"
)

// Dir takes pods from a directory of manifests. Its zero value with Path and
// Node is ready to use.
//
// Every regular file of the directory is a manifest, whatever its extension, as
// in the kubelet; links to files are followed, sub-directories are not entered,
// and what editors leave behind is passed over (manifest.Ignored). A file that
// is renamed into place or closed by its writer is read at once. A directory
// that does not exist is an empty set, until it comes.
//
// Unlike in the kubelet, a file that cannot be read or used keeps its last good
// pods, a bad document does not take its neighbours along, a file may hold many
// pods, and two files that make one pod do not push each other away: the first
// one by path has it, the other waits and is a Problem.
//
// A Dir is for one Run at a time.
type Dir struct {
	// Path is the directory. Required. It is part of the UIDs that are generated.
	Path string
	// Node is the node's name, lowered if need be: the pods' spec.nodeName and the
	// end of their names.
	Node string
	// SourceName is what Name returns. Default "file".
	SourceName string
	// Rescan is how often the whole directory is looked at in case an event was
	// missed. Default one minute.
	Rescan time.Duration
	// Settle is how long a file that may be half written, or a name that went
	// away, has to be quiet before it is acted upon. Default 50 ms.
	Settle time.Duration
	// MaxFileSize is the size in bytes from which on a file is refused. Default 10 MiB.
	MaxFileSize int64
	// Logger tells of problems as they come and go. Nil discards.
	Logger *slog.Logger

	problems board
}

var _ podsync.Source = (*Dir)(nil)

// Name returns SourceName, "file" by default.
func (d *Dir) Name() string { return sourceName(d.SourceName, "file") }

// Problems returns what is wrong now with the directory's files, sorted by
// file; nil if nothing is. Safe for concurrent use with Run.
func (d *Dir) Problems() []Problem { return d.problems.get() }

// Run hands over the directory's pods until ctx ends, then returns nil. See
// podsync.Source. set is called from one goroutine.
func (d *Dir) Run(ctx context.Context, set func(pods []*corev1.Pod)) error {
	log := logger(d.Logger).With("source", d.Name())
	b := &book{
		static: podspec.Static{Node: d.Node, SourceName: d.Name(), File: true},
		pages:  map[string]*page{},
	}
	files := &manifest.Dir{Path: d.Path, Rescan: d.Rescan, Settle: d.Settle, MaxFileSize: d.MaxFileSize, Logger: log}
	return files.Run(ctx, func(changed []manifest.File) {
		for _, f := range changed {
			switch {
			case f.Gone:
				b.gone(f.Path)
			case f.Err != nil:
				b.failed(f.Path, &DecodeError{Place: manifest.Place{File: f.Path}, Err: f.Err})
			default:
				b.read(f.Path, absolute(f.Path), f.Data)
			}
		}
		pods, problems, news := b.set()
		d.problems.post(log, problems)
		if news {
			set(pods)
		}
	})
}

// absolute makes the UID of a pod the same wherever the agent is started.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
