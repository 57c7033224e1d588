package cgroups

import (
	"os"
	"strconv"
	"strings"
)

// The controllers whose files this package writes.
const (
	controllerCPU     = "cpu"
	controllerMemory  = "memory"
	controllerPids    = "pids"
	controllerHugetlb = "hugetlb"
	controllerCpuset  = "cpuset"
)

// setting is one value in one file of a cgroup.
type setting struct {
	controller, file string
	// value is what to write; initial is what a new cgroup holds, so that a
	// value equal to it need not be written.
	value, initial string
	// unit is what the kernel rounds a number down to; 0 compares text.
	unit int64
	// optional: not every kernel has the file.
	optional bool
}

// holds tells whether what was read from the file is the value.
func (s *setting) holds(got string) bool {
	got = strings.TrimSpace(got)
	if got == s.value {
		return true
	}
	if s.unit == 0 {
		return false
	}
	g, ok := bytesOf(got)
	w, ok2 := bytesOf(s.value)
	return ok && ok2 && g/s.unit == w/s.unit
}

// noLimit is what all spellings of "no limit" are taken for: cgroup v1 reads
// back the largest number of pages for a limit that was written as -1.
const noLimit = 1 << 62

func bytesOf(s string) (int64, bool) {
	if s == "max" || s == "-1" {
		return noLimit, true
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return int64(min(n, noLimit)), err == nil
}

func settingsV1(r Resources) []setting {
	out := make([]setting, 0, 5+2*len(r.Hugepages))
	add := func(controller, file string, v int64, initial string, unit int64) {
		if v != 0 {
			out = append(out, setting{controller: controller, file: file, value: strconv.FormatInt(v, 10), initial: initial, unit: unit})
		}
	}
	add(controllerCPU, fileV1Shares, int64(r.CPUShares), "1024", 0)
	// The period comes before the quota; see Host.swap for the pair.
	add(controllerCPU, fileV1Period, int64(r.CPUPeriod), "100000", 0)
	add(controllerCPU, fileV1Quota, r.CPUQuota, "-1", 0)
	add(controllerMemory, "memory.limit_in_bytes", r.Memory, "-1", int64(os.Getpagesize()))
	if r.Pids != 0 {
		out = append(out, setting{controller: controllerPids, file: "pids.max", value: maxOr(r.Pids), initial: "max"})
	}
	return append(out, hugeSettings(r, ".limit_in_bytes")...)
}

const (
	fileV1Period = "cpu.cfs_period_us"
	fileV1Quota  = "cpu.cfs_quota_us"
	fileV1Shares = "cpu.shares"
	fileV2Weight = "cpu.weight"
)

func settingsV2(r Resources, weight WeightFunc) []setting {
	out := make([]setting, 0, 4+2*len(r.Hugepages))
	if r.CPUShares != 0 {
		out = append(out, setting{controller: controllerCPU, file: fileV2Weight,
			value: strconv.FormatUint(weight(r.CPUShares), 10), initial: "100"})
	}
	if r.CPUQuota != 0 {
		period := r.CPUPeriod
		if period == 0 {
			period = uint64(defaultPeriod.Microseconds())
		}
		out = append(out, setting{controller: controllerCPU, file: "cpu.max",
			value: maxOr(r.CPUQuota) + " " + strconv.FormatUint(period, 10), initial: "max 100000"})
	}
	if r.Memory != 0 {
		out = append(out, setting{controller: controllerMemory, file: "memory.max",
			value: maxOr(r.Memory), initial: "max", unit: int64(os.Getpagesize())})
	}
	if r.Pids != 0 {
		out = append(out, setting{controller: controllerPids, file: "pids.max", value: maxOr(r.Pids), initial: "max"})
	}
	return append(out, hugeSettings(r, ".max")...)
}

func hugeSettings(r Resources, suffix string) []setting {
	var out []setting
	for _, l := range r.Hugepages {
		s := setting{controller: controllerHugetlb, file: "hugetlb." + l.Size + suffix,
			value: strconv.FormatUint(l.Bytes, 10), initial: "max", unit: max(sizeBytes(l.Size), 1)}
		out = append(out, s)
		s.file, s.optional = "hugetlb."+l.Size+".rsvd"+suffix, true
		out = append(out, s)
	}
	return out
}

func maxOr(v int64) string {
	if v < 0 {
		return "max"
	}
	return strconv.FormatInt(v, 10)
}

// sizeBytes reads the kernel's spelling of a page size, 0 if it is none.
func sizeBytes(s string) int64 {
	for i, unit := range []string{"KB", "MB", "GB"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			v, err := strconv.ParseInt(n, 10, 32)
			if err != nil {
				return 0
			}
			return v << (10 * (i + 1))
		}
	}
	return 0
}
