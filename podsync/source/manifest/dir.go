package manifest

import (
	"context"
	"log/slog"
	"time"
)

const (
	// DefaultMaxFileSize is the size, in bytes, from which on a file is not read.
	DefaultMaxFileSize = 10 << 20
	// DefaultRescan is how often the whole directory is looked at all the same.
	DefaultRescan = time.Minute
	// DefaultSettle is how long a name has to be quiet before a file that may be
	// half written is read, and one that went away is believed gone.
	DefaultSettle = 50 * time.Millisecond
)

// Dir follows a directory of files. Its zero value with a Path is ready to use.
//
// A file that is renamed or linked into place, or closed by its writer, is read
// at once. A file that is being written is read when it has been quiet for a
// while. A file that went away is gone after Settle, so that an editor that
// moves the old file aside and writes a new one makes no gap. Sub-directories
// and the files that Ignored names are passed over; links to files are followed,
// and so is the way a mounted ConfigMap is updated, by a link named "..data".
//
// A directory that does not exist is an empty one; it may come, go and come back.
// Where the kernel's events are missing (a network file system, no watches
// left) changes are found by the rescan.
type Dir struct {
	// Path is the directory. Required.
	Path string
	// Rescan is how often the whole directory is looked at, in case an event was
	// missed. Only files whose size, time or inode changed are read again.
	// Default DefaultRescan; where the directory cannot be watched, at most 5 s.
	Rescan time.Duration
	// Settle is described above. Default DefaultSettle.
	Settle time.Duration
	// MaxFileSize is the size in bytes from which on a file is an error.
	// Default DefaultMaxFileSize.
	MaxFileSize int64
	// Logger tells of trouble with watching. Nil discards.
	Logger *slog.Logger
}

// File is a file that changed.
type File struct {
	// Path is the directory's path joined with the file's name. It is the
	// directory's own path when the directory as a whole cannot be read.
	Path string
	// Data is what the file holds now, when Err is nil and Gone is false.
	Data []byte
	// Err says why the file could not be read. What it held before still stands.
	Err error
	// Gone: there is no such file any more.
	Gone bool
}

// Run calls changed with all files there are, even if there are none, and then
// with those that changed, whenever some did, until ctx ends. Each file is
// reported once per change of its content; files come sorted by path. changed is
// called by one goroutine at a time, this one, and should not block. Run returns
// nil when ctx has ended and everything it started is over.
func (d *Dir) Run(ctx context.Context, changed func([]File)) error {
	return d.follower().run(ctx, changed)
}

func (d *Dir) follower() *follower {
	return &follower{
		path:   d.Path,
		rescan: orDefault(d.Rescan, DefaultRescan),
		settle: orDefault(d.Settle, DefaultSettle),
		max:    orDefault(d.MaxFileSize, DefaultMaxFileSize),
		log:    d.Logger,
		watch:  newNotifier,
	}
}

func orDefault[T ~int64](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
