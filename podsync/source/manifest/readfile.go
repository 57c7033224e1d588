package manifest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// known is what was last seen of a file.
type known struct {
	info fs.FileInfo
	read time.Time
	sum  [sha256.Size]byte
	// ok: it could be read, and sum is of its content.
	ok bool
}

// racy is how long after its last change a file's time says nothing: it could
// be written again within the same tick of the file system's clock.
const racy = time.Second

// unchanged tells whether there is no need to read the file again.
func (k *known) unchanged(st fs.FileInfo) bool {
	return k != nil && k.ok && os.SameFile(k.info, st) && k.info.Size() == st.Size() && k.info.ModTime().Equal(st.ModTime()) &&
		k.read.Sub(st.ModTime()) > racy
}

// scan looks at the whole directory and returns what changed.
func (f *follower) scan() []File {
	entries, err := os.ReadDir(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// What cannot be read is not empty: all files keep what they held.
		f.dirFault = true
		return []File{{Path: f.path, Err: fmt.Errorf("reading the directory: %w", err)}}
	}
	var files []File
	if f.dirFault {
		f.dirFault = false
		files = append(files, File{Path: f.path, Gone: true})
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.IsDir() || Ignored(e.Name()) {
			continue
		}
		there[e.Name()] = true
		if _, waiting := f.pending[e.Name()]; waiting || f.hot(e.Name()) {
			continue
		}
		if file, ok := f.read(e.Name(), false); ok {
			files = append(files, file)
		}
	}
	for name := range f.known {
		if _, waiting := f.pending[name]; !there[name] && !waiting {
			delete(f.known, name)
			files = append(files, File{Path: filepath.Join(f.path, name), Gone: true})
		}
	}
	return sorted(files)
}

func sorted(files []File) []File {
	slices.SortFunc(files, func(a, b File) int {
		switch {
		case a.Path < b.Path:
			return -1
		case a.Path > b.Path:
			return 1
		default:
			return 0
		}
	})
	return files
}

// hot tells whether a file was changed so lately that its writer may not be
// done, and has it looked at when it has been quiet for Settle.
func (f *follower) hot(name string) bool {
	st, err := os.Stat(filepath.Join(f.path, name))
	if err != nil || f.known[name].unchanged(st) {
		return false
	}
	now := time.Now()
	age := now.Sub(st.ModTime())
	if age < 0 || age >= f.settle {
		return false
	}
	f.look(name, now, now.Add(f.settle-age))
	return true
}

// read looks at one file. report is false if nothing is to be said about it.
func (f *follower) read(name string, force bool) (file File, report bool) {
	path := filepath.Join(f.path, name)
	file.Path = path
	k := f.known[name]
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if link, e := os.Readlink(path); e == nil {
			err = fmt.Errorf("is a link to %s, which does not exist", link)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !st.Mode().IsRegular():
		delete(f.known, name)
		file.Gone = true
		return file, k != nil
	case err == nil && !force && k.unchanged(st):
		return file, false
	case err == nil:
		file.Data, st, err = readRegular(path, f.max)
	}
	if err != nil {
		f.known[name] = &known{}
		file.Data, file.Err = nil, err
		return file, true
	}
	sum := sha256.Sum256(file.Data)
	f.known[name] = &known{info: st, read: time.Now(), sum: sum, ok: true}
	return file, k == nil || !k.ok || k.sum != sum
}

// readRegular reads a file that is still regular once it is open: opening a FIFO
// that was put in its place would block for ever.
func readRegular(path string, limit int64) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, st, fmt.Errorf("is not a regular file but %s", st.Mode().Type())
	}
	if st.Size() >= limit {
		return nil, st, fmt.Errorf("%w: %d bytes, and only files of less than %d are read", ErrTooLarge, st.Size(), limit)
	}
	data := make([]byte, 0, st.Size()+1)
	for {
		n, err := file.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, st, nil
		case err != nil:
			return nil, st, err
		case int64(len(data)) >= limit:
			return nil, st, fmt.Errorf("%w: it grew to %d bytes while it was read", ErrTooLarge, len(data))
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, 512)
		}
	}
}
