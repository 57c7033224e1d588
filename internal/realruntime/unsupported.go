//go:build !linux

package realruntime

import (
	"context"
	"syscall"
)

// Containerd is a running private containerd; there is none on this system.
type Containerd struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Config) (*Containerd, error) { return nil, ErrUnsupported }

// Sweep returns ErrUnsupported.
func Sweep(context.Context, string) error { return ErrUnsupported }

// SweepStale finds nothing.
func SweepStale(context.Context) error { return nil }

// Endpoint is empty.
func (*Containerd) Endpoint() string { return "" }

// Root is empty.
func (*Containerd) Root() string { return "" }

// CNIConfDir is empty.
func (*Containerd) CNIConfDir() string { return "" }

// CgroupRoot is empty.
func (*Containerd) CgroupRoot() string { return "" }

// Network is empty.
func (*Containerd) Network() string { return "" }

// Subnet is empty.
func (*Containerd) Subnet() string { return "" }

// PID is 0.
func (*Containerd) PID() int { return 0 }

// Log is empty.
func (*Containerd) Log() string { return "" }

// EnableNetwork returns ErrUnsupported.
func (*Containerd) EnableNetwork() error { return ErrUnsupported }

// DisableNetwork returns ErrUnsupported.
func (*Containerd) DisableNetwork() error { return ErrUnsupported }

// Kill does nothing.
func (*Containerd) Kill() {}

// Restart returns ErrUnsupported.
func (*Containerd) Restart(context.Context) error { return ErrUnsupported }

// Stop does nothing.
func (*Containerd) Stop(context.Context) error { return nil }

// Leaks finds nothing.
func (*Containerd) Leaks(...string) ([]string, error) { return nil, nil }

// Snapshot is empty.
type Snapshot struct{}

// TakeSnapshot returns an empty snapshot.
func TakeSnapshot() (Snapshot, error) { return Snapshot{}, nil }

// Leaks finds nothing.
func (Snapshot) Leaks() ([]string, error) { return nil, nil }

func childAttributes() *syscall.SysProcAttr { return nil }
