//go:build !linux

package ownership

import (
	"context"
	"errors"
)

// Apply gives the tree at path to the group. It is implemented on Linux only.
func Apply(context.Context, string, Options) error {
	return errors.New("fsGroup is supported on Linux only")
}
