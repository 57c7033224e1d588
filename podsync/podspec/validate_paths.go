package podspec

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxPathLength     = 4096
	maxFileNameLength = 255
)

// localPath checks a path that must lead down from a directory of ours: not
// absolute, no ".." element.
func (c *checker) localPath(p *field.Path, child, path string) {
	switch {
	case path == "":
		c.required(p, child, "")
	case strings.HasPrefix(path, "/"):
		c.invalid(p, child, path, "must be a relative path")
	default:
		c.noDotDot(p, child, path)
	}
}

// noDotDot checks that no element of the path is "..", and that a file system
// can hold it at all.
func (c *checker) noDotDot(p *field.Path, child, path string) {
	if slices.Contains(strings.Split(path, "/"), "..") {
		c.invalid(p, child, path, "must not contain '..'")
	}
	if strings.IndexByte(path, 0) >= 0 {
		c.invalid(p, child, path, "must not contain a NUL byte")
	}
	if len(path) > maxPathLength {
		c.add(field.TooLong(at(p, child), "", maxPathLength))
	}
}

// volumeFile checks the path of a file that is written atomically into a
// volume: the volume keeps its own data under names that start with "..".
func (c *checker) volumeFile(p *field.Path, child, path string) {
	c.localPath(p, child, path)
	if first, _, _ := strings.Cut(path, "/"); first != ".." && strings.HasPrefix(first, "..") {
		c.invalid(p, child, path, "must not start with '..'")
	}
	for e := range strings.SplitSeq(path, "/") {
		if len(e) > maxFileNameLength {
			c.invalid(p, child, path, "has an element of more than %d bytes", maxFileNameLength)
			return
		}
	}
}

// mode checks permission bits.
func (c *checker) mode(p *field.Path, child string, mode *int32, most int32) {
	if mode != nil && (*mode < 0 || *mode > most) {
		c.invalid(p, child, *mode, "must be permission bits between 0 and 0%o (octal)", most)
	}
}
