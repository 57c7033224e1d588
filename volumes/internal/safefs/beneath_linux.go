package safefs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxLinks = 40  // as the kernel
	maxParts = 256 // each directory on the way is held open
)

// OpenBeneath opens the path sub below the directory root and returns an O_PATH
// handle that says exactly which file was found, however the tree changes
// afterwards. Links are followed as long as they are relative and stay below
// root; one that is absolute or leads out is an *EscapeError. With create,
// missing directories are made with the permissions of root, but none that only
// a link names. Errors are bare: they hold no path of the host.
//
// Every part is opened by itself without following links, and ".." goes back to
// the directory that was really passed through: whoever renames and relinks
// meanwhile can at worst choose another file of the same tree.
func OpenBeneath(root, sub string, create bool) (*os.File, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	w := walker{sub: sub, stack: []int{fd}}
	defer w.close()
	if create {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, err
		}
		w.create, w.perm = true, st.Mode&0o7777
	}
	for _, p := range strings.Split(sub, "/") {
		w.parts = append(w.parts, part{name: p})
	}
	for len(w.parts) > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	return w.take(), nil
}

type part struct {
	name string
	link bool // came out of a link
}

type walker struct {
	sub    string
	stack  []int // open directories from root to here
	file   int   // final file that is no directory, once found
	found  bool
	parts  []part
	links  int
	create bool
	perm   uint32
}

func (w *walker) close() {
	for _, fd := range w.stack {
		unix.Close(fd)
	}
	if w.found {
		unix.Close(w.file)
	}
}

// take hands out the handle of what was found.
func (w *walker) take() *os.File {
	if w.found {
		w.found = false
		return os.NewFile(uintptr(w.file), w.sub)
	}
	last := len(w.stack) - 1
	fd := w.stack[last]
	w.stack = w.stack[:last]
	return os.NewFile(uintptr(fd), w.sub)
}

func (w *walker) step() error {
	p := w.parts[0]
	w.parts = w.parts[1:]
	if w.found { // a file, and the path goes on
		return unix.ENOTDIR
	}
	switch p.name {
	case "", ".":
		return nil
	case "..":
		if len(w.stack) == 1 {
			return &EscapeError{Path: w.sub, Why: `".." goes above it`}
		}
		unix.Close(w.stack[len(w.stack)-1])
		w.stack = w.stack[:len(w.stack)-1]
		return nil
	}
	if len(w.stack) > maxParts {
		return unix.ENAMETOOLONG
	}
	fd, err := w.open(p)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		defer unix.Close(fd)
		return w.follow(fd)
	case unix.S_IFDIR:
		w.stack = append(w.stack, fd)
	default:
		w.file, w.found = fd, true
	}
	return nil
}

func (w *walker) open(p part) (int, error) {
	dir := w.stack[len(w.stack)-1]
	for range 100 { // somebody may remove what was just made
		fd, err := openat(dir, p.name)
		if !errors.Is(err, unix.ENOENT) || !w.create || p.link {
			return fd, err
		}
		err = unix.Mkdirat(dir, p.name, w.perm&0o777)
		switch {
		case errors.Is(err, unix.EEXIST):
			continue
		case err != nil:
			return -1, err
		}
		if fd, err = w.made(dir, p.name); !errors.Is(err, unix.ENOENT) {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// made opens a directory just made and gives it the permissions that the umask
// took away.
func (w *walker) made(dir int, name string) (int, error) {
	fd, err := openat(dir, name)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	// Somebody may have put another thing there; then leave its mode alone.
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid() && st.Mode&0o7777 != w.perm {
		if err := unix.Chmod(FDPath(fd), w.perm); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

func (w *walker) follow(fd int) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return err
	}
	target := string(buf[:n])
	if strings.HasPrefix(target, "/") {
		return &EscapeError{Path: w.sub, Why: "a part of it is an absolute link"}
	}
	var parts []part
	for _, p := range strings.Split(target, "/") {
		parts = append(parts, part{name: p, link: true})
	}
	w.parts = append(parts, w.parts...)
	return nil
}

func openat(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// FDPath is a path that leads to exactly the file behind an open descriptor of
// this process, for calls that take no descriptor.
func FDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Reopen opens for reading what an O_PATH handle stands for. Only regular files
// are opened: a fifo would block, a device would act.
func Reopen(h *os.File) (*os.File, error) {
	fi, err := h.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: h.Name(), Err: ErrNotRegular}
	}
	fd, err := unix.Open(FDPath(int(h.Fd())), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: h.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), h.Name()), nil
}

// Exists tells whether there is something at the path. It is what runs at every
// sync of every pod, and cheaper than os.Lstat.
func Exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }
