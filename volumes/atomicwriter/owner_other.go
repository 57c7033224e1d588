//go:build !unix

package atomicwriter

import "io/fs"

// ownedBy: there are no numeric owners here, so that any owner will do.
func ownedBy(fs.FileInfo, *int64, *int64) bool { return true }
