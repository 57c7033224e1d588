//go:build unix

package atomicwriter

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedBy tells whether the file has that owner and group; a nil uid is this
// process's, a nil gid any.
func ownedBy(fi fs.FileInfo, uid, gid *int64) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	want := int64(os.Geteuid())
	if uid != nil {
		want = *uid
	}
	if fi.IsDir() && uid == nil { // the volume's directory may be another's
		want = int64(st.Uid)
	}
	return int64(st.Uid) == want && (gid == nil || int64(st.Gid) == *gid)
}
