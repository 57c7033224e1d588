package manifest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// inotifier uses inotify itself, which unlike fsnotify tells when a writer
// closed its file: a file is then read at once and never half written.
type inotifier struct {
	f    *os.File
	ch   chan event
	done chan struct{}
	wg   sync.WaitGroup
}

const inotifyMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

func newNotifier(dir string) (notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, os.NewSyscallError("inotify_init1", err))
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, inotifyMask); err != nil {
		_ = f.Close() // the first error says more
		return nil, fmt.Errorf("watching %s: %w", dir, os.NewSyscallError("inotify_add_watch", err))
	}
	n := &inotifier{f: f, ch: make(chan event, 256), done: make(chan struct{})}
	n.wg.Go(n.run)
	return n, nil
}

func (n *inotifier) events() <-chan event { return n.ch }

func (n *inotifier) closesReported() bool { return true }

func (n *inotifier) close() {
	close(n.done)
	_ = n.f.Close() // ends the read; nothing is left to do about an error
	n.wg.Wait()
}

func (n *inotifier) run() {
	defer close(n.ch)
	buf := make([]byte, 64<<10)
	for {
		size, err := n.f.Read(buf)
		if err != nil {
			return // closed
		}
		for data := buf[:size]; len(data) >= unix.SizeofInotifyEvent; {
			mask := binary.NativeEndian.Uint32(data[4:])
			nameLen := int(binary.NativeEndian.Uint32(data[12:]))
			name := data[unix.SizeofInotifyEvent:]
			if nameLen > len(name) {
				break // the kernel does not cut events
			}
			if i := bytes.IndexByte(name[:nameLen], 0); i >= 0 {
				name = name[:i]
			} else {
				name = name[:nameLen]
			}
			e := event{string(name), inotifyOp(mask)}
			data = data[unix.SizeofInotifyEvent+nameLen:]
			if e.op == 0 {
				continue
			}
			select {
			case n.ch <- e:
			case <-n.done:
				return
			}
		}
	}
}

func inotifyOp(mask uint32) op {
	switch {
	case mask&(unix.IN_Q_OVERFLOW|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0:
		return opLost
	case mask&(unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO) != 0:
		return opComplete
	case mask&(unix.IN_CREATE|unix.IN_MODIFY) != 0:
		return opPartial
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		return opGone
	default:
		return 0
	}
}
