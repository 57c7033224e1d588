package cgroupstest_test

import (
	"testing"

	"github.com/podsync/sdk/cgroups"
	"github.com/podsync/sdk/cgroups/cgroupstest"
)

// The suite on a Manager over a directory; a site's own Manager takes its place.
func Example() {
	_ = func(t *testing.T) {
		cgroupstest.Run(t, func(t *testing.T) func() cgroups.Manager {
			root := t.TempDir()
			return func() cgroups.Manager {
				m, err := cgroups.NewDir(root, cgroups.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
		})
	}
}
