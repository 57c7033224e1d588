//go:build unix

package probe

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// lingerShortly has a closed socket give up after a second.
func lingerShortly(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// Without it the probe works as well.
		_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1})
	})
}
