package cgroups

import "math"

// The range of CPU shares (cgroup v1) and of CPU weight (cgroup v2).
const (
	// MinShares is the kernel's and the kubelet's smallest number of CPU shares.
	MinShares = 2
	// MaxShares is the largest.
	MaxShares = 262144
	minWeight = 1
	maxWeight = 10000
)

// WeightFunc turns CPU shares (2 to 262144, default 1024) into a cgroup v2 CPU
// weight (1 to 10000, default 100). Only the ratio between siblings counts, so
// one tree must use one formula at each of its levels.
type WeightFunc func(shares uint64) uint64

// LinearWeight maps shares to weight in proportion: 1024 is 39. It is the
// kubelet's for its own levels (all pods, tiers, pods) and the default here,
// since what lies on those levels is made by the kubelet or by this package and
// by nobody else, keeps the ratios of the requests exactly, and stays comparable
// when one takes a node over from the other. The runtime's containers are a level
// of their own below a pod and may use another formula.
func LinearWeight(shares uint64) uint64 {
	shares = min(max(shares, MinShares), MaxShares)
	return 1 + (shares-MinShares)*(maxWeight-minWeight)/(MaxShares-MinShares)
}

// QuadraticWeight is the formula of runc 1.3.2, crun 1.23 and later for
// containers, which maps default to default: 1024 is 100. Use it where pods'
// cgroups stand beside cgroups with the default weight and should count the same.
func QuadraticWeight(shares uint64) uint64 {
	switch {
	case shares <= MinShares:
		return minWeight
	case shares >= MaxShares:
		return maxWeight
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612.0-7.0/34.0)))
}
