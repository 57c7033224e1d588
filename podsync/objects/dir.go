package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/source/manifest"
)

// Dir reads ConfigMaps and Secrets from a directory of manifests and follows
// it. It may be the directory that the pods come from: pods are passed over, as
// a source.Dir passes over what is read here. Its zero value with a Path is ready.
//
// The rules are those of source.Dir: YAML or JSON, one or many documents a file,
// lists; a file is read when it is complete; one that cannot be read or used
// keeps its last good objects; of two objects of one name the first by path
// counts. An object with "immutable: true" keeps its data until it is removed.
// Keys and names are checked, because they become files; stringData is folded
// into data.
//
// Run must run for the objects to be there; until it has read the directory the
// getters say ErrNotRead. A Dir is for one Run at a time. Safe for concurrent use.
type Dir struct {
	// Path is the directory. Required. It may be missing and come later.
	Path string
	// Bus is told when objects came, went or changed. Nil tells nobody.
	Bus *podsync.Bus
	// Rescan, Settle and MaxFileSize are those of manifest.Dir; so are the defaults:
	// one minute, 50 ms, 10 MiB.
	Rescan, Settle time.Duration
	MaxFileSize    int64
	// Logger tells of problems as they come and go. Nil discards.
	Logger *slog.Logger

	mu       sync.Mutex
	ready    bool
	t        table
	problems []error
}

var _ podsync.Objects = (*Dir)(nil)

// Secret returns the secret, or an error that matches podsync.ErrNotFound or,
// before the directory was read, ErrNotRead.
func (d *Dir) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	t, err := d.table()
	if err != nil {
		return nil, fmt.Errorf("Secret %s/%s: %w", namespace, name, err)
	}
	return t.secret(namespace, name)
}

// ConfigMap returns the config map, or an error that matches podsync.ErrNotFound
// or, before the directory was read, ErrNotRead.
func (d *Dir) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	t, err := d.table()
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	}
	return t.configMap(namespace, name)
}

func (d *Dir) table() (table, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ready {
		return table{}, ErrNotRead
	}
	return d.t, nil
}

// Problems returns what is wrong now with the directory's files, nil if nothing
// is: values of *manifest.DecodeError, *DuplicateError, *ImmutableError and, for
// what is used all the same, manifest.Warning.
func (d *Dir) Problems() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.problems)
}

// Run follows the directory until ctx ends, then returns nil.
func (d *Dir) Run(ctx context.Context) error {
	log := d.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("objects", d.Path)
	pages := map[string]*page{}
	files := &manifest.Dir{Path: d.Path, Rescan: d.Rescan, Settle: d.Settle, MaxFileSize: d.MaxFileSize, Logger: log}
	return files.Run(ctx, func(changed []manifest.File) {
		for _, f := range changed {
			switch {
			case f.Gone:
				delete(pages, f.Path)
			case f.Err != nil:
				pages[f.Path] = pages[f.Path].failed(&manifest.DecodeError{Place: manifest.Place{File: f.Path}, Err: f.Err})
			default:
				pages[f.Path] = pages[f.Path].next(f.Path, f.Data)
				warnOpen(log, f.Path, pages[f.Path])
			}
		}
		d.publish(log, pages)
	})
}

// warnOpen warns of a file with secrets that everybody on the machine can read.
func warnOpen(log *slog.Logger, path string, p *page) {
	hasSecret := slices.ContainsFunc(p.entries, func(e entry) bool { return e.secret != nil })
	if st, err := os.Stat(path); hasSecret && err == nil && st.Mode().Perm()&0o004 != 0 {
		log.Warn("file with secrets can be read by everybody", "file", path, "mode", st.Mode().String())
	}
}

func (d *Dir) publish(log *slog.Logger, pages map[string]*page) {
	d.mu.Lock()
	t, problems := assemble(pages, d.t)
	changed := !d.ready || !reflect.DeepEqual(t, d.t)
	before := d.problems
	d.t, d.ready, d.problems = t, true, problems
	d.mu.Unlock()
	texts := func(errs []error) map[string]bool {
		m := make(map[string]bool, len(errs))
		for _, e := range errs {
			m[e.Error()] = true
		}
		return m
	}
	was, is := texts(before), texts(problems)
	for _, e := range problems {
		if !was[e.Error()] {
			log.Error("manifest of objects", "err", e)
		}
	}
	for _, e := range before {
		if !is[e.Error()] {
			log.Info("manifest problem is over", "was", e)
		}
	}
	if changed {
		d.Bus.Publish(podsync.TopicObjectsChanged)
	}
}

// DuplicateError says that two documents make one object. The first one, by
// path and then by document, counts.
type DuplicateError struct {
	// Place is the document that is passed over, First the one that counts.
	Place, First manifest.Place
}

// Error names both documents.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s is already defined by %s; this one waits until that is gone", e.Place, e.First)
}

// ImmutableError says that a manifest wants other data in an object that said of
// itself that it never changes. The old data stays.
type ImmutableError struct {
	// Place is the document.
	Place manifest.Place
}

// Error names the document.
func (e *ImmutableError) Error() string {
	return fmt.Sprintf("%s: the object is immutable; remove it first to give it other data", e.Place)
}

// assemble makes one table of all files. Objects of the table before stay where
// they are immutable or equal.
func assemble(pages map[string]*page, before table) (table, []error) {
	t := table{map[key]*corev1.Secret{}, map[key]*corev1.ConfigMap{}}
	var problems []error
	first := map[key]manifest.Place{}
	for _, file := range slices.Sorted(maps.Keys(pages)) {
		p := pages[file]
		problems = append(problems, p.errs...)
		for _, w := range p.warnings {
			problems = append(problems, w)
		}
		for _, e := range p.entries {
			k := e.key()
			if place, taken := first[k]; taken {
				problems = append(problems, &DuplicateError{Place: e.place, First: place})
				continue
			}
			first[k] = e.place
			if !t.put(k, e, before) {
				problems = append(problems, &ImmutableError{Place: e.place})
			}
		}
	}
	return t, problems
}

// put adds the entry, or keeps what was there before where that is immutable and
// now reads otherwise: then it returns false.
func (t table) put(k key, e entry, before table) (ok bool) {
	if e.secret != nil {
		old := before.secrets[k]
		t.secrets[k] = e.secret
		if old != nil && old.Immutable != nil && *old.Immutable && !reflect.DeepEqual(old.Data, e.secret.Data) {
			t.secrets[k] = old
			return false
		}
		return true
	}
	old := before.configMaps[k]
	t.configMaps[k] = e.configMap
	if old != nil && old.Immutable != nil && *old.Immutable &&
		!(reflect.DeepEqual(old.Data, e.configMap.Data) && reflect.DeepEqual(old.BinaryData, e.configMap.BinaryData)) {
		t.configMaps[k] = old
		return false
	}
	return true
}

// errKind is the fault of what neither this directory nor a source of pods reads.
var errKind = errors.New("only ConfigMap, Secret and lists of them are read here")
