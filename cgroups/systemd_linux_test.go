package cgroups

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups/systemd"
)

func TestCase_CGR_05_NoQuotaStaysNone(t *testing.T) {
	n, err := NewName("kubepods", "burstable", "poda-b")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		quota int64
		want  int64
	}{
		{"none", Unlimited, -1},
		{"then 500m", 50000, 50000},
		{"then none", Unlimited, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := unitConfig(n, Resources{CPUShares: 1024, CPUQuota: tt.quota, CPUPeriod: 100000, Memory: -1, Pids: -1}, true, LinearWeight)
			if c.CpuQuota != tt.want || c.Memory != -1 || *c.PidsLimit != -1 {
				t.Errorf("quota %d, memory %d, pids %d", c.CpuQuota, c.Memory, *c.PidsLimit)
			}
			if d := cmp.Diff([]string{"kubepods-burstable-poda_b.slice", "kubepods-burstable.slice"}, []string{c.Name, c.Parent}); d != "" {
				t.Errorf("unit and parent (-want +got):\n%s", d)
			}
			if c.CpuWeight != 39 || c.CpuShares != 0 {
				t.Errorf("weight %d, shares %d", c.CpuWeight, c.CpuShares)
			}
		})
	}
	if c := unitConfig(n, Resources{CPUShares: 1024}, false, LinearWeight); c.CpuShares != 1024 || c.CpuWeight != 0 {
		t.Errorf("v1: shares %d, weight %d", c.CpuShares, c.CpuWeight)
	}
	top, err := NewName("kubepods")
	if err != nil {
		t.Fatal(err)
	}
	if c := unitConfig(top, Resources{}, true, LinearWeight); c.Parent != "-.slice" {
		t.Errorf("parent of %s is %q", c.Name, c.Parent)
	}
}

func TestSystemdRoundsQuota(t *testing.T) {
	for quota, want := range map[int64]int64{-1: -1, 0: 0, 50000: 50000, 1100: 2000, 1000: 1000, 10001: 11000} {
		if got := systemdRounded(Resources{CPUQuota: quota, CPUPeriod: 100000}).CPUQuota; got != want {
			t.Errorf("quota %d is rounded to %d, want %d", quota, got, want)
		}
	}
}

func TestSystemdMissing(t *testing.T) {
	if systemd.IsRunningSystemd() {
		t.Skip("needs a host without systemd")
	}
	if _, err := New(Options{Driver: Systemd}); !errors.Is(err, ErrNoSystemd) {
		t.Errorf("New: %v, want ErrNoSystemd", err)
	}
}
