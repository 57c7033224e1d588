package cgroups

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// tree is what is done to a mounted hierarchy. Directories are absolute and
// made of validated names. Missing things match fs.ErrNotExist.
type tree interface {
	// mkdir makes one directory; an existing one matches fs.ErrExist.
	mkdir(dir string) error
	// rmdir removes one directory that has no children and no processes.
	rmdir(dir string) error
	read(dir, file string) (string, error)
	write(dir, file, value string) error
	subdirs(dir string) ([]string, error)
	// pids lists the processes of that directory alone.
	pids(dir string) ([]int, error)
	// kill ends a process at once; one that is gone is no error.
	kill(pid int) error
}

// plainTree is a tree of ordinary files below a directory. It follows no link
// out of it.
type plainTree struct{ root string }

// in calls f with the root opened and path relative to it.
func (t plainTree) in(path string, f func(r *os.Root, rel string) error) error {
	r, err := os.OpenRoot(t.root)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing was written through it
	rel := strings.Trim(strings.TrimPrefix(path, t.root), "/")
	if rel == "" {
		rel = "."
	}
	return f(r, rel)
}

func (t plainTree) mkdir(dir string) error {
	return t.in(dir, func(r *os.Root, rel string) error { return r.Mkdir(rel, 0o755) })
}

// rmdir also removes the files, as the kernel does.
func (t plainTree) rmdir(dir string) error {
	return t.in(dir, func(r *os.Root, rel string) error {
		ents, err := readDir(r, rel)
		if err != nil {
			return err
		}
		for _, e := range ents {
			if e.IsDir() {
				return &fs.PathError{Op: "rmdir", Path: dir, Err: errNotEmpty}
			}
		}
		for _, e := range ents {
			if err := r.Remove(rel + "/" + e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return r.Remove(rel)
	})
}

var errNotEmpty = errors.New("it has cgroups below it")

func readDir(r *os.Root, rel string) ([]fs.DirEntry, error) {
	f, err := r.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return f.ReadDir(-1)
}

func (t plainTree) read(dir, file string) (s string, err error) {
	err = t.in(dir, func(r *os.Root, rel string) error {
		b, err := r.ReadFile(rel + "/" + file)
		s = string(b)
		return err
	})
	return s, err
}

func (t plainTree) write(dir, file, value string) error {
	return t.in(dir, func(r *os.Root, rel string) error {
		return r.WriteFile(rel+"/"+file, []byte(value+"\n"), 0o644)
	})
}

func (t plainTree) subdirs(dir string) (names []string, err error) {
	err = t.in(dir, func(r *os.Root, rel string) error {
		ents, err := readDir(r, rel)
		for _, e := range ents {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

func (plainTree) pids(string) ([]int, error) { return nil, nil }
func (plainTree) kill(int) error             { return nil }
