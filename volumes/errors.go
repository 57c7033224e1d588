package volumes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/internal/safefs"
)

// Reasons of the errors and outcomes of this package.
const (
	// ReasonFailedMount: a volume could not be set up, or not be brought up to date.
	ReasonFailedMount = "FailedMount"
	// ReasonFailedUnmount: a volume could not be taken down.
	ReasonFailedUnmount = "FailedUnmount"
)

// VolumeError is the failure of one volume.
type VolumeError struct {
	// Volume is its name; "" when it is about the pod's directory as a whole.
	Volume string
	// Err says what failed.
	Err error
}

// Error names the volume.
func (e *VolumeError) Error() string {
	if e.Volume == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("volume %q: %v", e.Volume, e.Err)
}

// Unwrap returns what failed.
func (e *VolumeError) Unwrap() error { return e.Err }

// PodError collects the failures of a pod's volumes.
type PodError struct {
	// Pod is the pod as podsync.Ref has it, or its UID.
	Pod string
	// Op is "mount" or "unmount".
	Op string
	// Volumes are the failures in the order of the spec. Never empty.
	Volumes []*VolumeError
}

// Error names the pod and every volume that failed.
func (e *PodError) Error() string { return e.Op + " volumes of pod " + e.Pod + ": " + e.text() }

func (e *PodError) text() string {
	s := make([]string, len(e.Volumes))
	for i, v := range e.Volumes {
		s[i] = v.Error()
	}
	return strings.Join(s, "; ")
}

// Unwrap returns the failures.
func (e *PodError) Unwrap() []error {
	errs := make([]error, len(e.Volumes))
	for i, v := range e.Volumes {
		errs[i] = v
	}
	return errs
}

// Reason returns ReasonFailedMount or ReasonFailedUnmount.
func (e *PodError) Reason() string {
	if e.Op == "unmount" {
		return ReasonFailedUnmount
	}
	return ReasonFailedMount
}

// Missing tells whether all that failed is that objects or keys do not exist:
// it is then worth waiting for them, and for nothing else.
func (e *PodError) Missing() bool {
	for _, v := range e.Volumes {
		if !onlyNotFound(v.Err) {
			return false
		}
	}
	return len(e.Volumes) > 0
}

// onlyNotFound tells whether every leaf of the error is an ErrNotFound.
func onlyNotFound(err error) bool {
	for err != nil {
		if err == podsync.ErrNotFound { //nolint:errorlint // the chain is walked here
			return true
		}
		switch x := err.(type) { //nolint:errorlint // the chain is walked here
		case interface{ Unwrap() []error }:
			all := x.Unwrap()
			for _, e := range all {
				if !onlyNotFound(e) {
					return false
				}
			}
			return len(all) > 0
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		default:
			return false
		}
	}
	return false
}

// MountedError says that something is not deleted because something is mounted
// in it. It is worth trying again after an unmount.
type MountedError = safefs.MountedError

// UnsupportedError says that no plugin serves a volume.
type UnsupportedError struct {
	// Kind is the volume's source as the spec has it, such as "nfs".
	Kind string
}

// Error names the kind.
func (e *UnsupportedError) Error() string { return "no plugin supports volumes of kind " + e.Kind }

// SubPathError says that the subPath of a mount could not be prepared. Its text
// holds no path of the host, so that it can be shown to the pod's owner; what it
// wraps may hold one.
type SubPathError struct {
	// Container, Volume and SubPath say which mount is meant.
	Container, Volume, SubPath string
	// Err is the cause, for the node's operator.
	Err error
}

// Error says what is wrong without a path of the host.
func (e *SubPathError) Error() string {
	return fmt.Sprintf("container %q: failed to prepare subPath %q of volume %q: %s", e.Container, e.SubPath, e.Volume, e.why())
}

// Unwrap returns the cause.
func (e *SubPathError) Unwrap() error { return e.Err }

func (e *SubPathError) why() string {
	var escape *safefs.EscapeError
	var said *plainError
	var errno syscall.Errno
	switch {
	case errors.As(e.Err, &escape):
		return escape.Error()
	case errors.As(e.Err, &said):
		return said.Error()
	case errors.Is(e.Err, safefs.ErrNotRegular):
		return safefs.ErrNotRegular.Error()
	case errors.As(e.Err, &errno):
		return errno.Error()
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		return "the time for it is over"
	default:
		return "internal error"
	}
}

// fileError is a SubPathError about reading a file.
type fileError struct{ SubPathError }

func (e *fileError) Error() string {
	return fmt.Sprintf("failed to read file %q of volume %q: %s", e.SubPath, e.Volume, e.why())
}

// plainError is a text that is fit for everybody.
type plainError struct{ text string }

func (e *plainError) Error() string { return e.text }

// kindOf names a volume's source as the spec does.
func kindOf(v *corev1.Volume) string {
	s := &v.VolumeSource
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"persistentVolumeClaim", s.PersistentVolumeClaim != nil}, {"csi", s.CSI != nil}, {"ephemeral", s.Ephemeral != nil},
		{"image", s.Image != nil}, {"nfs", s.NFS != nil}, {"iscsi", s.ISCSI != nil}, {"fc", s.FC != nil},
		{"gitRepo", s.GitRepo != nil}, {"flexVolume", s.FlexVolume != nil}, {"cephfs", s.CephFS != nil}, {"rbd", s.RBD != nil},
		{"emptyDir", s.EmptyDir != nil}, {"hostPath", s.HostPath != nil}, {"configMap", s.ConfigMap != nil},
		{"secret", s.Secret != nil}, {"downwardAPI", s.DownwardAPI != nil}, {"projected", s.Projected != nil},
	} {
		if k.set {
			return k.name
		}
	}
	return "unknown"
}
