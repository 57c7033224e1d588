// Package atomicwriter writes the files of a content volume (configMap, secret,
// downwardAPI, projected) so that a reader sees all of the old or all of the
// new ones, never a mix. The layout is the kubelet's: the files lie in a
// directory named after the time, the link ..data names the current one and is
// replaced by a rename, and for the first part of every path a link leads into
// ..data.
package atomicwriter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/podsync/sdk/volumes/ownership"
)

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	// timeFormat is the kubelet's, so that either recognizes the other's.
	timeFormat = "..2006_01_02_15_04_05."
)

// File is one file of a payload.
type File struct {
	// Data is what it holds.
	Data []byte
	// Mode holds its permissions, such as 0o644.
	Mode fs.FileMode
	// UID is its owner; nil is this process's.
	UID *int64
}

// Payload is all the files of a volume by their path in it.
type Payload map[string]File

// Writer writes payloads to one directory, which must exist. For one directory
// it must not be used twice at a time.
type Writer struct {
	// Dir is the volume's directory.
	Dir string
	// GID is the group that is to own everything, as fsGroup says: permissions
	// to read are added for it. Nil leaves groups and permissions alone.
	GID *int64
	// Now names the directories. Nil is time.Now.
	Now func() time.Time

	// step is called before every change to the disk, for tests of failures.
	step func(name string) error
}

// Write makes the payload what the directory shows and tells whether anything
// had to be written. An error leaves the former payload in force, except one in
// the last part, when links are made and leftovers removed; the next Write
// finishes what an earlier one left, at whatever point it failed or crashed.
func (w *Writer) Write(p Payload) (changed bool, err error) {
	files, err := clean(p)
	if err != nil {
		return false, err
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return false, fmt.Errorf("write files: %w", err)
	}
	defer root.Close()
	current, err := w.current(root)
	if err != nil {
		return false, err
	}
	if changed = current == "" || !w.same(root, current, files); changed {
		if current, err = w.replace(root, files); err != nil {
			return false, err
		}
	}
	if err := w.group(root); err != nil {
		return changed, err
	}
	return changed, w.tidy(root, current, files)
}

// Complete tells whether the directory shows a payload that was written wholly.
func Complete(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	w := Writer{Dir: dir}
	current, err := w.current(root)
	if err != nil || current == "" {
		return false
	}
	entries, err := fs.ReadDir(root.FS(), current)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if t, err := root.Readlink(e.Name()); err != nil || t != dataLink+"/"+e.Name() {
			return false
		}
	}
	return true
}

func (w *Writer) at(step string) error {
	if w.step != nil {
		return w.step(step)
	}
	return nil
}

// current returns the name of the directory that ..data names, "" if none.
func (w *Writer) current(root *os.Root) (string, error) {
	t, err := root.Readlink(dataLink)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("write files: %w", err)
	}
	if !isTimeDir(t) {
		return "", nil
	}
	if fi, err := root.Lstat(t); err != nil || !fi.IsDir() {
		return "", nil
	}
	return t, nil
}

// errDiffers ends the comparison of a directory with a payload.
var errDiffers = errors.New("differs")

func isTimeDir(name string) bool {
	return strings.HasPrefix(name, "..") && !strings.Contains(name, "/") && len(name) > len("..") &&
		name != dataLink && name != newDataLink
}

// same tells whether the directory holds exactly these files, with their modes
// and owners.
func (w *Writer) same(root *os.Root, dir string, files Payload) bool {
	n := 0
	err := fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		f, ok := files[strings.TrimPrefix(name, dir+"/")]
		if !ok {
			return errDiffers
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if !fi.Mode().IsRegular() || fi.Mode() != w.mode(f.Mode) || fi.Size() != int64(len(f.Data)) || !ownedBy(fi, f.UID, w.GID) {
			return errDiffers
		}
		b, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(b, f.Data) {
			return errDiffers
		}
		n++
		return nil
	})
	return err == nil && n == len(files)
}

func (w *Writer) mode(m fs.FileMode) fs.FileMode {
	if w.GID == nil {
		return m
	}
	return ownership.Mode(m, true)
}

// replace writes the files to a new directory and makes it the current one.
func (w *Writer) replace(root *os.Root, files Payload) (string, error) {
	dir, err := w.timeDir(root)
	if err != nil {
		return "", err
	}
	if err := w.fill(root, dir, files); err != nil {
		// What was written may be what filled the disk.
		return "", errors.Join(err, root.RemoveAll(dir))
	}
	return dir, nil
}

func (w *Writer) fill(root *os.Root, dir string, files Payload) error {
	if err := w.own(root, dir, 0o755|fs.ModeDir, nil); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.file(root, dir, name, files[name]); err != nil {
			return err
		}
	}
	if err := w.at("link"); err != nil {
		return err
	}
	if err := root.RemoveAll(newDataLink); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	if err := root.Symlink(dir, newDataLink); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	if err := w.at("rename"); err != nil {
		return err
	}
	if err := root.Rename(newDataLink, dataLink); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	return nil
}

func (w *Writer) timeDir(root *os.Root) (string, error) {
	now := time.Now
	if w.Now != nil {
		now = w.Now
	}
	if err := w.at("dir"); err != nil {
		return "", err
	}
	t := now()
	prefix := t.Format(timeFormat)
	for i := range 10000 {
		dir := fmt.Sprintf("%s%d", prefix, (t.Nanosecond()+i)%1_000_000_000)
		err := root.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("write files: %w", err)
		}
	}
	return "", errors.New("write files: no free name for a directory")
}

func (w *Writer) file(root *os.Root, dir, name string, f File) error {
	if err := w.at("file " + name); err != nil {
		return err
	}
	for i := range name {
		if name[i] != '/' {
			continue
		}
		sub := path.Join(dir, name[:i])
		if err := root.Mkdir(sub, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("write files: %w", err)
		}
		if err := w.own(root, sub, 0o755|fs.ModeDir, nil); err != nil {
			return err
		}
	}
	full := path.Join(dir, name)
	if err := root.WriteFile(full, f.Data, 0o600); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	return w.own(root, full, f.Mode, f.UID)
}

// own sets owner, then mode: a change of owner may clear mode bits.
func (w *Writer) own(root *os.Root, name string, mode fs.FileMode, uid *int64) error {
	if uid != nil || w.GID != nil {
		u, g := -1, -1
		if uid != nil {
			u = int(*uid)
		}
		if w.GID != nil {
			g = int(*w.GID)
		}
		if err := root.Lchown(name, u, g); err != nil {
			return fmt.Errorf("set owner: %w", err)
		}
	}
	if err := root.Chmod(name, w.mode(mode)&^fs.ModeDir); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}

// group gives the volume's own directory to the group.
func (w *Writer) group(root *os.Root) error {
	if w.GID == nil {
		return nil
	}
	fi, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	if ownedBy(fi, nil, w.GID) && w.mode(fi.Mode()) == fi.Mode() {
		return nil
	}
	return w.own(root, ".", fi.Mode(), nil)
}

// tidy makes the links that readers use and removes those of files that are no
// more, and the directories of former payloads.
func (w *Writer) tidy(root *os.Root, current string, files Payload) error {
	want := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		want[first] = true
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := w.show(root, name); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case want[name], name == dataLink, name == current:
			continue
		case isTimeDir(name) && e.IsDir(), name == newDataLink:
		case e.Type()&fs.ModeSymlink != 0:
			if t, err := root.Readlink(name); err != nil || !strings.HasPrefix(t, dataLink+"/") {
				continue
			}
		default: // not of our making: a subPath's directory, say
			continue
		}
		if err := w.at("remove " + name); err != nil {
			return err
		}
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("remove old files: %w", err)
		}
	}
	return nil
}

// show makes the link by which readers find a file.
func (w *Writer) show(root *os.Root, name string) error {
	target := dataLink + "/" + name
	t, err := root.Readlink(name)
	if err == nil && t == target {
		return nil
	}
	if err := w.at("show " + name); err != nil {
		return err
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		// Another link, or the empty directory that a subPath made here while the
		// optional object was missing.
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("%q is in the way of a file of that name: %w", name, err)
		}
	}
	if err := root.Symlink(target, name); err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	return nil
}
