// Package ownership gives volumes to a pod's fsGroup, as the kubelet does: every
// file gets the group and the group's permissions, every directory also the
// setgid bit, so that what containers write later belongs to the group too.
package ownership

import (
	"io/fs"

	corev1 "k8s.io/api/core/v1"
)

// Options say how a tree is given to a group.
type Options struct {
	// Group is the group's id.
	Group int64
	// ReadOnly adds only the group's permission to read; the default adds writing.
	ReadOnly bool
	// Policy OnRootMismatch leaves a tree alone whose root already has the group,
	// its permissions and the setgid bit. Nil and Always go through all of it.
	Policy *corev1.PodFSGroupChangePolicy
}

// Mode returns the permissions, and for a directory the setgid bit, that a file
// of this mode has once it belongs to the group. It only ever adds.
func Mode(m fs.FileMode, readOnly bool) fs.FileMode {
	add := fs.FileMode(0o660)
	if readOnly {
		add = 0o440
	}
	if m.IsDir() {
		add |= 0o110 | fs.ModeSetgid
	}
	return m | add
}

// rootMatches tells whether OnRootMismatch can leave the tree alone.
func rootMatches(m fs.FileMode, gid int64, o Options) bool {
	return gid == o.Group && Mode(m, o.ReadOnly) == m
}

func (o Options) onMismatch() bool {
	return o.Policy != nil && *o.Policy == corev1.FSGroupChangeOnRootMismatch
}
