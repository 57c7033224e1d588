//go:build !unix

package manifest

import "io/fs"

func manyLinks(fs.FileInfo) bool { return false }
