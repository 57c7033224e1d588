//go:build !linux

package cgroups

import (
	"errors"
	"fmt"
)

// New fails: cgroups are Linux's. Use Noop or NewDir.
func New(Options) (*Host, error) {
	return nil, fmt.Errorf("cgroups need Linux; use Noop or NewDir: %w", errors.ErrUnsupported)
}
