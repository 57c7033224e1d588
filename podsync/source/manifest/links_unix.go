//go:build unix

package manifest

import (
	"io/fs"
	"syscall"
)

// manyLinks tells whether a file has a second name.
func manyLinks(st fs.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.Mode().IsRegular() && s.Nlink > 1
}
