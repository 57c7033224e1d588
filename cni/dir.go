package cni

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podsync/sdk/podsync"
)

// FromDir is a Checker that looks for itself: the network is ready when the
// first usable file of a CNI configuration directory names plugins that are all
// installed. It is for runtimes that do not report on their network, and tells
// which file or plugin is at fault. Run looks when something changes there; with
// no Run, Ready looks by itself when what is known has grown old. The fields
// must not be changed after the first use.
type FromDir struct {
	// ConfDir holds the configuration; default /etc/cni/net.d. It need not exist.
	ConfDir string
	// BinDirs hold the plugins; default /opt/cni/bin.
	BinDirs []string
	// Period is how often Run looks, events apart, while the network is ready;
	// default 1 min.
	Period time.Duration
	// RetryPeriod is how often while it is not; default 1 s.
	RetryPeriod time.Duration
	// Bus is where podsync.TopicNetworkReady goes when the network becomes ready;
	// may be nil.
	Bus *podsync.Bus
	// Logger is told of changes; nil discards.
	Logger *slog.Logger

	state state
}

var _ Checker = (*FromDir)(nil)

// settle is the time that a burst of changes is given to end.
const settle = 20 * time.Millisecond

// Ready implements Checker.
func (f *FromDir) Ready(ctx context.Context) (ready bool, reason, message string) {
	f.state.fresh(ctx, or(f.RetryPeriod, time.Second), f.look)
	s := f.state.get()
	return s.Ready, s.Reason, s.Message
}

// Status returns what is known.
func (f *FromDir) Status() Status { return f.state.get() }

// Run watches until ctx ends, and then returns nil. Only one may run at a time.
func (f *FromDir) Run(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch network configurations: %w", err)
	}
	defer w.Close() //nolint:errcheck // nothing depends on it
	defer f.state.begin()()
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon := true // a look is due within settle; more changes do not put it off
	changed := func() {
		if !soon {
			soon = true
			timer.Reset(settle)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if f.concerns(e.Name) {
				changed()
			}
			continue
		case <-w.Errors:
			changed() // an overflow: something was missed
			continue
		case <-timer.C:
			soon = false
		}
		// First watch, then look, or what comes between is missed.
		watched := f.watch(w)
		f.state.look(ctx, f.look)
		if watched {
			timer.Reset(f.pause())
		} else {
			timer.Reset(or(f.RetryPeriod, time.Second))
		}
	}
}

// watch watches the directories. It tells whether the configuration is watched:
// a directory that is not there yet must be tried again soon, whatever the look
// after it finds, since it may have come in between.
func (f *FromDir) watch(w *fsnotify.Watcher) bool {
	for _, dir := range f.binDirs() {
		_ = w.Add(dir)
	}
	return w.Add(f.confDir()) == nil
}

// concerns tells whether a change of that file may matter.
func (f *FromDir) concerns(file string) bool {
	base := filepath.Base(file)
	return filepath.Dir(file) != filepath.Clean(f.confDir()) || !strings.HasPrefix(base, ".")
}

func (f *FromDir) pause() time.Duration {
	if f.state.get().Ready {
		return or(f.Period, time.Minute)
	}
	return or(f.RetryPeriod, time.Second)
}

func (f *FromDir) confDir() string {
	if f.ConfDir == "" {
		return "/etc/cni/net.d"
	}
	return f.ConfDir
}

func (f *FromDir) binDirs() []string {
	if len(f.BinDirs) == 0 {
		return []string{"/opt/cni/bin"}
	}
	return f.BinDirs
}

// look looks once.
func (f *FromDir) look(context.Context) {
	f.state.set(scanDirs(f.confDir(), f.binDirs()).status(), f.Bus, f.Logger)
}
