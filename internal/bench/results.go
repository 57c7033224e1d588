package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// results are what was measured; what was not is empty or zero.
type results struct {
	startFloor, startOurs []float64 // ms, in pairs
	floor                 []level
	burstOurs, removeOurs []float64 // pods/s
	idle, memory          float64   // ms/s, MiB
	noopTime, noopAllocs  float64   // µs
}

// level is what the floor reached with a number of calls in flight.
type level struct {
	inFlight     int
	burst, clear []float64 // pods/s
}

func (r *results) addFloor(inFlight int, burst, clear float64) {
	for i := range r.floor {
		if l := &r.floor[i]; l.inFlight == inFlight {
			l.burst, l.clear = append(l.burst, burst), append(l.clear, clear)
			return
		}
	}
	r.floor = append(r.floor, level{inFlight: inFlight, burst: []float64{burst}, clear: []float64{clear}})
}

// bestLevels are the numbers of calls in flight with which the floor started pods fastest.
func (r *results) bestLevels(n int) []int {
	sorted := slices.Clone(r.floor)
	slices.SortStableFunc(sorted, func(a, b level) int { return cmp.Compare(median(b.burst), median(a.burst)) })
	var out []int
	for _, l := range sorted[:min(n, len(sorted))] {
		out = append(out, l.inFlight)
	}
	return out
}

// best is the best that the floor reached with any number of calls in flight.
func (r *results) best(of func(level) []float64) (rate float64, inFlight int) {
	for _, l := range r.floor {
		if m := median(of(l)); m > rate {
			rate, inFlight = m, l.inFlight
		}
	}
	return rate, inFlight
}

// row is a line of the table.
type row struct {
	name    string  // for people
	key     string  // for programs
	kubelet string  // what the kubelet 1.37.2 needed on the same machine
	figure  float64 // NaN when it was not measured
	format  string  // of figure and target
	target  float64
	atLeast bool // the target is a lower bound
	none    bool // there is no target
	detail  string
}

func (r row) measured() bool { return !math.IsNaN(r.figure) }

func (r row) met() bool {
	switch {
	case r.none || !r.measured():
		return true
	case r.atLeast:
		return r.figure >= r.target
	default:
		return r.figure <= r.target
	}
}

func (r row) mark() string {
	switch {
	case !r.measured():
		return "not measured"
	case r.none:
		return ""
	case r.met():
		return "pass"
	default:
		return "MISS"
	}
}

func (r row) value() string {
	if !r.measured() {
		return "-"
	}
	return fmt.Sprintf(r.format, r.figure)
}

func (r row) goal() string {
	switch {
	case r.none:
		return "-"
	case r.atLeast:
		return "≥ " + fmt.Sprintf(r.format, r.target)
	default:
		return "≤ " + fmt.Sprintf(r.format, r.target)
	}
}

// rows are the table. pods is the size of a burst.
func (r *results) rows(pods int) []row {
	or := func(v float64) float64 {
		if v == 0 {
			return math.NaN()
		}
		return v
	}
	up, upAt := r.best(func(l level) []float64 { return l.burst })
	down, downAt := r.best(func(l level) []float64 { return l.clear })
	return []row{
		{name: "start of one pod over the CRI floor", key: "start_ratio", kubelet: "3.6×", format: "%.2f×", target: 1.15,
			figure: or(median(r.startOurs) / median(r.startFloor)),
			detail: fmt.Sprintf("%.0f ms over %.0f ms", median(r.startOurs), median(r.startFloor))},
		{name: fmt.Sprintf("burst of %d, pods/s over the floor's best", pods), key: "burst_ratio", kubelet: "0.28×", format: "%.2f×", target: 0.85, atLeast: true,
			figure: or(median(r.burstOurs) / up),
			detail: fmt.Sprintf("%.1f over %.1f pods/s, %d in flight", median(r.burstOurs), up, upAt)},
		{name: fmt.Sprintf("removal of %d, pods/s over the floor's best", pods), key: "remove_ratio", kubelet: "-", format: "%.2f×", none: true,
			figure: or(median(r.removeOurs) / down),
			detail: fmt.Sprintf("%.1f over %.1f pods/s, %d in flight", median(r.removeOurs), down, downAt)},
		{name: fmt.Sprintf("idle CPU with %d pods", pods), key: "idle_cpu_ms_per_s", kubelet: "29 ms/s", format: "%.1f ms/s", target: 3, figure: or(r.idle)},
		{name: fmt.Sprintf("resident memory with %d pods", pods), key: "rss_mib", kubelet: "86 MiB", format: "%.0f MiB", target: 40, figure: or(r.memory)},
		{name: "no-op sync, 3 containers, time", key: "noop_us", kubelet: "84 µs", format: "%.1f µs", target: 15, figure: or(r.noopTime)},
		{name: "no-op sync, 3 containers, allocations", key: "noop_allocs", kubelet: "636", format: "%.0f", target: 60, figure: or(r.noopAllocs)},
	}
}

// printTable prints the table for people, and a line for each figure for programs.
func printTable(out io.Writer, rows []row) error {
	var b strings.Builder
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tKUBELET 1.37.2*\tTARGET\tHERE\t\tDETAIL")
	for _, r := range rows {
		detail := r.detail
		if !r.measured() {
			detail = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.kubelet, r.goal(), r.value(), r.mark(), detail)
	}
	_ = w.Flush() // into memory
	b.WriteString("* measured once, on another machine of this size\n\n")
	for _, r := range rows {
		if r.measured() {
			fmt.Fprintf(&b, "RESULT %s %.3f\n", r.key, r.figure)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// median is the middle one, or the mean of the two in the middle; zero of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
