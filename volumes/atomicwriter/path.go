package atomicwriter

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	maxPath = 4096
	maxName = 255
)

// PathError says why a path cannot be one of a file in a volume.
type PathError struct{ Path, Why string }

// Error shows the path and the reason.
func (e *PathError) Error() string { return fmt.Sprintf("path %q of a file %s", e.Path, e.Why) }

// ValidatePath tells whether a path can name a file of a volume: relative,
// without "..", its first part not beginning with ".." (the writer's own names
// do), and not longer than file systems take. The error is a *PathError.
func ValidatePath(p string) error {
	bad := func(why string) error { return &PathError{Path: p, Why: why} }
	switch {
	case p == "":
		return bad("is empty")
	case len(p) > maxPath:
		return &PathError{Path: p[:64] + "…", Why: fmt.Sprintf("is longer than %d bytes", maxPath)}
	case path.IsAbs(p):
		return bad("must be relative")
	case strings.ContainsRune(p, 0):
		return bad("holds a null byte")
	case strings.HasPrefix(path.Clean(p), ".."):
		return bad(`must not begin with ".."`)
	case path.Clean(p) == ".":
		return bad("names no file")
	}
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "..":
			return bad(`must not contain ".."`)
		case len(part) > maxName:
			return &PathError{Path: p[:64] + "…", Why: fmt.Sprintf("has a part longer than %d bytes", maxName)}
		}
	}
	return nil
}

// clean validates a payload and brings its paths into one form.
func clean(p Payload) (Payload, error) {
	out := make(Payload, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if err := ValidatePath(name); err != nil {
			return nil, err
		}
		c := path.Clean(name)
		if _, twice := out[c]; twice {
			return nil, &PathError{Path: name, Why: "is there twice"}
		}
		f := p[name]
		f.Mode &= fs.ModePerm
		out[c] = f
	}
	for name := range out {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := out[dir]; file {
				return nil, &PathError{Path: name, Why: fmt.Sprintf("needs a directory where %q is a file", dir)}
			}
		}
	}
	return out, nil
}
