package podsync

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Trace is what each stage of one run did and how long it took. Safe for
// concurrent use.
type Trace struct {
	mu      sync.Mutex
	phase   Phase
	entries []TraceEntry
}

// TraceEntry is one stage's part of a Trace.
type TraceEntry struct {
	// Stage is the stage's name; in a nested pipeline, the inner stage's.
	Stage string
	// Start is when it began, Took how long it ran.
	Start time.Time
	Took  time.Duration
	// Outcome is what it returned, after the pipeline settled it.
	Outcome Outcome
}

func (r *syncRun) startTrace(p *Pipeline) {
	t := &r.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = p.phase
	if t.entries == nil {
		t.entries = make([]TraceEntry, 0, len(p.places))
	}
}

func (t *Trace) add(name string, start time.Time, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = append(t.entries, TraceEntry{Stage: name, Start: start, Took: time.Since(start), Outcome: o})
}

// Entries returns the stages in the order in which they ended.
func (t *Trace) Entries() []TraceEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries[:len(t.entries):len(t.entries)]
}

// Phase returns the phase that was run.
func (t *Trace) Phase() Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// WriteTable writes the trace as a table for people.
func (t *Trace) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "STAGE\tOUTCOME\tTOOK\n")
	for _, e := range t.Entries() {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", e.Stage, e.Outcome, e.Took.Round(time.Microsecond))
	}
	return tw.Flush()
}

// String returns the outcomes in one line: "status=Continue network=Wait(NetworkNotReady)".
func (t *Trace) String() string {
	var parts []string
	for _, e := range t.Entries() {
		o := e.Outcome.Kind().String()
		if r := e.Outcome.Reason(); r != "" {
			o += "(" + r + ")"
		}
		parts = append(parts, e.Stage+"="+o)
	}
	return strings.Join(parts, " ")
}

// Trace returns what the stages of this run did so far.
func (s *Sync) Trace() *Trace { return &s.run.trace }
