// Package realruntime runs a private containerd: what end-to-end tests, benchmarks and `make run` use.
//
// Everything of it is its own: root and state directory, sockets, CNI configuration, network, bridge, subnet
// and cgroup root. Nothing of a containerd that the machine may have is read or written, and several private
// ones can run at once. [Containerd.Stop] leaves nothing behind; what a killed process left is swept by the
// next [Start]. The programs come from `make runtime` (see [LocateBin] and [Missing]).
//
//	registry, err := realruntime.StartRegistry(ctx, realruntime.RegistryConfig{})
//	node, err := realruntime.Start(ctx, realruntime.Config{SandboxImage: registry.Image("pause:3.10")})
//	defer node.Stop(ctx)
//	client, err := remote.NewRemoteRuntimeService(ctx, node.Endpoint(), …)
//
// Tests use the package runtimetest, which does this and checks that nothing was left.
package realruntime

import (
	"errors"
	"io"
	"time"
)

// ErrUnsupported is returned by [Start] where no container runtime can run: not Linux.
var ErrUnsupported = errors.New("a real container runtime needs Linux")

// ErrInUse is returned by [Start] and [Sweep] for a root directory whose owner is still running.
var ErrInUse = errors.New("root directory is in use by a running process")

// ErrNotOurs is returned by [Sweep] for a directory that this package did not make: it is never removed.
var ErrNotOurs = errors.New("not the root directory of a private containerd")

// Config says what to start. The zero value with a SandboxImage is ready to use.
type Config struct {
	// BinDir has the programs of `make runtime`. Default: LocateBin().
	BinDir string
	// Root is the directory of this instance; it must be empty or absent, or be left over from an instance
	// whose process is dead. Default: a new directory below the temporary directory of the system. It must
	// lie on a file system that overlayfs can use, and be at most 80 bytes long, for the sake of sockets.
	Root string
	// SandboxImage is the reference of the pause image. Required.
	SandboxImage string
	// Masquerade lets pods reach other networks through this machine (it needs iptables). Default: they
	// reach this machine and each other only.
	Masquerade bool
	// NoNetwork starts without CNI configuration: the runtime reports NetworkReady=false until
	// [Containerd.EnableNetwork] is called.
	NoNetwork bool
	// ExtraConfig is TOML appended to containerd's configuration: further tables.
	ExtraConfig string
	// Output gets what containerd logs, beside the file containerd.log in Root. Default: the file only.
	Output io.Writer
	// StartTimeout bounds the wait for readiness. Default 20 s.
	StartTimeout time.Duration
	// StopTimeout bounds the orderly part of Stop; what is left then is killed. Default 30 s.
	StopTimeout time.Duration
}

// Limits of names and paths that the kernel sets.
const (
	maxRoot      = 80 // a socket's path has at most 107 bytes
	maxSocketDir = 42 // containerd's limit for shim sockets: the name is 64 hex digits
)

// Prefixes of everything with a name that is visible outside of Root.
const (
	rootPrefix    = "podsync-rt-"
	networkPrefix = "podsync-"
	bridgePrefix  = "psb" // an interface name has at most 15 bytes
)

// withDefaults fills in what is not set, save for BinDir and Root.
func (c Config) withDefaults() Config {
	if c.StartTimeout <= 0 {
		c.StartTimeout = 20 * time.Second
	}
	if c.StopTimeout <= 0 {
		c.StopTimeout = 30 * time.Second
	}
	return c
}
