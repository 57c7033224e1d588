package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   []float64
		want float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 3}, 3},
		{"even", []float64{4, 1, 9, 2}, 3},
	} {
		if got := median(tt.of); got != tt.want {
			t.Errorf("%s: median is %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, args, want string
	}{
		{name: "defaults"},
		{name: "quick", args: "--quick"},
		{name: "levels", args: "--in-flight 4,8"},
		{name: "no level", args: "--in-flight 0", want: "--in-flight"},
		{name: "no rounds", args: "--rounds 0", want: "--rounds"},
		{name: "too many pods for the subnet and the node", args: "--pods 101", want: "--pods"},
		{name: "unknown part", args: "--only stop", want: "--only"},
		{name: "argument", args: "now", want: "unexpected argument"},
	} {
		o, err := parse(strings.Fields(tt.args))
		switch {
		case tt.want == "" && (err != nil || o.pods != 50 || len(o.levels) == 0):
			t.Errorf("%s: %+v, %v", tt.name, o, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error is %v, want one about %s", tt.name, err, tt.want)
		}
	}
}

func TestParseBenchmark(t *testing.T) {
	out := `goos: linux
BenchmarkNoopSync-2   	   20000	     14000 ns/op	    3696 B/op	      31 allocs/op
BenchmarkNoopSync-2   	   20000	     18000 ns/op	    3696 B/op	      33 allocs/op
BenchmarkNoopSync-2   	   20000	     12000 ns/op	    3696 B/op	      31 allocs/op
ok`
	micros, allocs, err := parseBenchmark(out)
	if err != nil || micros != 14 || allocs != 31 {
		t.Errorf("parsed %v µs, %v allocations, %v", micros, allocs, err)
	}
	if _, _, err := parseBenchmark("ok"); err == nil {
		t.Error("no result is no error")
	}
}

func TestResults(t *testing.T) {
	r := &results{startFloor: []float64{100, 120, 110}, startOurs: []float64{121, 110, 130}, burstOurs: []float64{8, 9}, removeOurs: []float64{7},
		idle: 3.5, noopTime: 12, noopAllocs: 31}
	for _, l := range []struct {
		inFlight    int
		burst, down float64
	}{{1, 5, 8}, {2, 9, 9}, {4, 10, 20}, {2, 11, 9}, {4, 12, 10}} {
		r.addFloor(l.inFlight, l.burst, l.down)
	}
	if d := cmp.Diff([]int{4, 2}, r.bestLevels(2)); d != "" {
		t.Errorf("best levels (-want +got):\n%s", d)
	}
	got := map[string]string{}
	for _, row := range r.rows(50) {
		got[row.key] = row.value() + " " + row.mark()
	}
	want := map[string]string{
		"start_ratio": "1.10× pass", "burst_ratio": "0.77× MISS", "remove_ratio": "0.47× ", "idle_cpu_ms_per_s": "3.5 ms/s MISS",
		"rss_mib": "- not measured", "noop_us": "12.0 µs pass", "noop_allocs": "31 pass",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	var out strings.Builder
	if err := printTable(&out, r.rows(50)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"RESULT start_ratio 1.100\n", "RESULT burst_ratio 0.773\n", "121 ms over 110 ms", "≥ 0.85×"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in the output:\n%s", line, &out)
		}
	}
	if strings.Contains(out.String(), "RESULT rss_mib") {
		t.Error("a figure that was not measured is among the results")
	}
}

func TestNothingMeasured(t *testing.T) {
	for _, row := range (&results{}).rows(50) {
		if row.measured() || !math.IsNaN(row.figure) || !row.met() {
			t.Errorf("%s: %v", row.name, row.figure)
		}
	}
}

// The pod that is measured must be one that the agent takes.
func TestManifestIsValid(t *testing.T) {
	pod := manifest("a", "pause:1")
	pod.UID = "a"
	podspec.Default(pod)
	if err := podspec.Validate(pod); err != nil {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	e := &events{started: map[types.UID]time.Time{}, news: make(chan struct{})}
	started := func(uid, container string, at int64, kind runtimeapi.ContainerEventType) {
		e.take(&runtimeapi.ContainerEventResponse{
			ContainerId: container, ContainerEventType: kind,
			PodSandboxStatus:   &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}},
			ContainersStatuses: []*runtimeapi.ContainerStatus{{Id: "c", StartedAt: at}},
		})
	}
	const start = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	done := make(chan time.Time)
	go func() {
		last, err := e.wait(t.Context(), []types.UID{"a", "b"})
		if err != nil {
			t.Error(err)
		}
		done <- last
	}()
	started("a", "sandbox", 1, start) // the sandbox is no container
	started("a", "c", 7, start)
	started("b", "c", 3, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	started("b", "c", 5, start)
	if last := <-done; last.UnixNano() != 7 {
		t.Errorf("the last began at %d, want 7", last.UnixNano())
	}
}
