//go:build !linux

package volumestest

import "testing"

// RealRoot skips the test: real mounts are tested on Linux.
func RealRoot(t testing.TB, _ string) string {
	t.Helper()
	t.Skip("needs Linux")
	return ""
}

// MountsBelow returns nothing outside Linux.
func MountsBelow(testing.TB, string) []string { return nil }
