package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// noopSync runs the benchmark of a run that has nothing to do, and returns the medians: microseconds and allocations.
func noopSync(ctx context.Context) (micros, allocs float64, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkNoopSync$", "-benchmem", "-count", "5", "-benchtime", "0.5s",
		"github.com/podsync/sdk/podsync/node")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("benchmark of a no-op sync: %w: %s", err, out)
	}
	return parseBenchmark(string(out))
}

// parseBenchmark reads what `go test -bench` printed of one benchmark.
func parseBenchmark(out string) (micros, allocs float64, err error) {
	var times, counts []float64
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		for i, unit := range fields {
			if i == 0 {
				continue
			}
			switch v, _ := strconv.ParseFloat(fields[i-1], 64); unit {
			case "ns/op":
				times = append(times, v/1000)
			case "allocs/op":
				counts = append(counts, v)
			}
		}
	}
	if len(times) == 0 || len(counts) == 0 {
		return 0, 0, errors.New("benchmark of a no-op sync: it printed no result")
	}
	return median(times), median(counts), nil
}
