package source

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source/manifest"
)

// Problem is something wrong, now, with a file or URL.
type Problem struct {
	// File is the path or URL.
	File string
	// Err says what is wrong: a *DecodeError (which wraps a *podspec.InvalidError
	// when the pod is written well but not valid), a *DuplicateError, or a Warning.
	Err error
	// Warning tells that the document is used all the same.
	Warning bool
	// Kept is how many pods the file keeps from its last good content.
	Kept int
}

// DuplicateError says that two manifests make one pod. The first one, by path
// and then by document, has it.
type DuplicateError struct {
	// Pod is the pod's namespace and name, or its UID.
	Pod string
	// Place is the document that is passed over, First the one that has the pod.
	Place, First manifest.Place
}

// Error names the pod and both places.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s: pod %s is already made by %s; this one waits until that is gone", e.Place, e.Pod, e.First)
}

// page is what is known of one file.
type page struct {
	entries  []entry
	warnings []Warning
	errs     []error
	kept     int
}

func (p *page) problems(file string) (list []Problem) {
	for _, err := range p.errs {
		list = append(list, Problem{File: file, Err: err, Kept: p.kept})
	}
	for _, w := range p.warnings {
		if w.Kind != manifest.Skipped {
			list = append(list, Problem{File: file, Err: w, Warning: true})
		}
	}
	return list
}

// book holds the pages of a source and makes one set of pods of them. Not safe
// for concurrent use.
type book struct {
	static podspec.Static // Origin is filled in
	pages  map[string]*page
	last   []*corev1.Pod
	sent   bool
}

// read takes a file's new content.
func (b *book) read(file, origin string, data []byte) {
	entries, warnings, errs := decode(file, data)
	fresh := make([]entry, 0, len(entries))
	for _, e := range entries {
		if err := b.finish(e.pod, origin); err != nil {
			errs = append(errs, &DecodeError{Place: e.place, Err: err})
			continue
		}
		fresh = append(fresh, e)
	}
	old := b.page(file)
	merged, kept := succeed(old.entries, fresh, len(errs) > 0)
	b.pages[file] = &page{entries: merged, warnings: warnings, errs: errs, kept: kept}
}

// failed notes that a file could not be read; its pods stay.
func (b *book) failed(file string, err error) {
	p := b.page(file)
	p.errs, p.warnings, p.kept = []error{err}, nil, len(p.entries)
}

func (b *book) gone(file string) { delete(b.pages, file) }

func (b *book) page(file string) *page {
	p := b.pages[file]
	if p == nil {
		p = &page{}
		b.pages[file] = p
	}
	return p
}

func (b *book) finish(pod *corev1.Pod, origin string) error {
	s := b.static
	s.Origin = origin
	if err := podspec.ApplyStaticDefaults(pod, s); err != nil {
		return err
	}
	podspec.Default(pod)
	return podspec.Validate(pod)
}

// succeed decides which pods a file has after it was read again. While part of
// it is at fault nobody can tell which of the old pods that part was: all that
// were not replaced stay, and kept counts them. A pod that did not change stays
// the same object.
func succeed(old, fresh []entry, faulty bool) (merged []entry, kept int) {
	byName := make(map[string]entry, len(old))
	for _, e := range old {
		byName[fullName(e.pod)] = e
	}
	replaced := make(map[string]bool, len(fresh))
	for _, e := range fresh {
		name := fullName(e.pod)
		// The hash covers all that the file's author wrote.
		if o, ok := byName[name]; ok && o.pod.UID == e.pod.UID &&
			o.pod.Annotations[podspec.AnnotationHash] == e.pod.Annotations[podspec.AnnotationHash] {
			e.pod = o.pod
		}
		replaced[name] = true
		merged = append(merged, e)
	}
	if !faulty {
		return merged, 0
	}
	for _, e := range old {
		if !replaced[fullName(e.pod)] {
			merged = append(merged, e)
			kept++
		}
	}
	return merged, kept
}

func fullName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// set makes the set of pods, and lists what is wrong. changed is false when the
// set is the one returned last.
func (b *book) set() (pods []*corev1.Pod, problems []Problem, changed bool) {
	files := make([]string, 0, len(b.pages))
	for f := range b.pages {
		files = append(files, f)
	}
	slices.Sort(files)
	names := map[string]manifest.Place{}
	uids := map[types.UID]manifest.Place{}
	for _, file := range files {
		p := b.pages[file]
		problems = append(problems, p.problems(file)...)
		for _, e := range p.entries {
			name := fullName(e.pod)
			first, taken := names[name]
			if !taken {
				if first, taken = uids[e.pod.UID]; taken {
					name = "with UID " + string(e.pod.UID)
				}
			}
			if taken {
				problems = append(problems, Problem{File: file, Err: &DuplicateError{Pod: name, Place: e.place, First: first}})
				continue
			}
			names[name], uids[e.pod.UID] = e.place, e.place
			pods = append(pods, e.pod)
		}
	}
	changed = !b.sent || !slices.Equal(pods, b.last)
	b.last, b.sent = pods, true
	return pods, problems, changed
}

// board shows a source's current problems and logs what changes in them.
type board struct {
	mu       sync.Mutex
	problems []Problem
}

func (b *board) get() []Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.problems)
}

func (b *board) post(log *slog.Logger, now []Problem) {
	b.mu.Lock()
	before := b.problems
	b.problems = now
	b.mu.Unlock()
	texts := func(list []Problem) map[string]bool {
		m := make(map[string]bool, len(list))
		for _, p := range list {
			m[p.Err.Error()] = true
		}
		return m
	}
	was, is := texts(before), texts(now)
	for _, p := range now {
		if was[p.Err.Error()] {
			continue
		}
		if p.Warning {
			log.Warn("manifest is odd", "file", p.File, "err", p.Err)
		} else {
			log.Error("manifest cannot be used", "file", p.File, "podsKept", p.Kept, "err", p.Err)
		}
	}
	for _, p := range before {
		if !is[p.Err.Error()] {
			log.Info("manifest problem is over", "file", p.File, "was", p.Err)
		}
	}
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// sourceName returns the name to use for a source.
func sourceName(name, def string) string { return cmp.Or(strings.TrimSpace(name), def) }
