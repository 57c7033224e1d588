package node_test

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func cpuNow() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(0, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }
func BenchmarkCalib(b *testing.B) {
	c := cpuNow()
	x := uint64(1)
	for b.Loop() {
		for i := 0; i < 10000; i++ {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	_ = x
	b.ReportMetric(float64(cpuNow()-c)/float64(b.N), "cpu-ns/op")
}
