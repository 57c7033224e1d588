package memory

import (
	"log/slog"
	"net/netip"
	"time"

	"k8s.io/utils/clock"
)

// Clock is what a Runtime needs of time. clock.RealClock and the fake clock of k8s.io/utils/clock/testing
// both are one.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once d has passed. It may call f from within the call that moves the clock.
	AfterFunc(d time.Duration, f func()) clock.Timer
}

// Options configure a Runtime. The zero value is a working runtime: real time, one address per pod from
// 10.88.0.0/16, every image can be pulled at once, every container runs until it is stopped.
type Options struct {
	// Clock drives every wait. Default: the real clock.
	Clock Clock
	// Logger takes debug records of what the runtime does. Default: none.
	Logger *slog.Logger
	// Seed goes into every ID. Runtimes with one Seed give the same IDs in the same order of calls.
	Seed string

	// Rules choose the behaviour of a container; the first that knows it wins.
	Rules []Rule
	// Script gives the behaviour of a container that no rule knows. It is called once, when the container is
	// created, and may not call the Runtime. Default: run until stopped.
	Script func(Container) Behaviour

	// Images are there from the start.
	Images []Image
	// Registry says how images are pulled, by reference in any spelling. What it does not name can be pulled
	// at once without authentication, unless RegistryOnly is set.
	Registry map[string]RemoteImage
	// RegistryOnly makes the pull of an image that Registry does not name fail with NotFound.
	RegistryOnly bool

	// PodCIDRs are the ranges that pod addresses come from, one address of each per pod; the first gives the
	// pod's main address. Two ranges make a dual-stack runtime. Default: 10.88.0.0/16.
	PodCIDRs []netip.Prefix
	// Handlers are the runtime handlers that RunPodSandbox knows beside the empty one. Default: runc.
	Handlers []string
	// CgroupDriver is the answer of RuntimeConfig: "cgroupfs" or "systemd". Default: cgroupfs.
	CgroupDriver string
	// Version is the version that the runtime reports. Default: 2.4.2.
	Version string
	// ImageFsMountpoint is the file system of ImageFsInfo. Default: /var/lib/podsync-memory.
	ImageFsMountpoint string

	// NoLogs turns log files and termination messages off. By default they are written where the log
	// directory of the pod, or the file behind the termination message path, exists.
	NoLogs bool
	// Events are the event stream's initial settings. See Runtime.SetEvents.
	Events EventOptions
	// Intercept sees every call. See Runtime.SetIntercept.
	Intercept Intercept
	// CallTimeout bounds each call as a CRI client does (StopContainer adds its grace, ExecSync its own
	// timeout, RunPodSandbox gets twice as much, PullImage and GetContainerEvents are not bounded).
	// Default: none; only the context bounds a call.
	CallTimeout time.Duration
	// Record is how many of the latest calls Calls remembers. Default: 10000; negative: none.
	Record int
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.PodCIDRs) == 0 {
		o.PodCIDRs = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 88, 0, 0}), 16)}
	}
	if o.Handlers == nil {
		o.Handlers = []string{"runc"}
	}
	if o.CgroupDriver == "" {
		o.CgroupDriver = "cgroupfs"
	}
	if o.Version == "" {
		o.Version = "2.4.2"
	}
	if o.ImageFsMountpoint == "" {
		o.ImageFsMountpoint = "/var/lib/podsync-memory"
	}
	if o.Record == 0 {
		o.Record = 10000
	}
	return o
}
