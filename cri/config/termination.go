package config

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Bounds of termination messages, the kubelet's own.
const (
	// MaxTerminationMessage is the number of bytes read of a message file.
	MaxTerminationMessage = 4096
	// MaxTerminationLog and MaxTerminationLogLines bound the fallback to logs.
	MaxTerminationLog      = 2048
	MaxTerminationLogLines = 80
)

// TerminationFile returns the path, below dir (podsync.Dirs.Containers), of the
// file that becomes the termination message file of one instance of a
// container: <dir>/<container>/<restartCount>. "" when the container wants
// none. Names that are no single path element are an error. The kubelet uses a
// random name; what is in the runtime's mounts counts when it is read.
func TerminationFile(dir string, c *corev1.Container, restartCount int) (string, error) {
	return "", nil
}

// CreateTerminationFile makes an empty termination message file with mode 0666,
// and its directory, below root. It is idempotent, keeps no content of an
// earlier try, and follows no link below root.
func CreateTerminationFile(root, path string) error { return nil }

// TerminationMessage returns the message of an exited container: the content of
// its termination message file, or the end of its log when the file is empty,
// the container failed and its policy is FallbackToLogsOnError. The runtime's
// own message, if any, comes first. readFile and readLogs are ReadTerminationFile
// and ReadLogTail or stand-ins; what they cannot read is said in the message,
// without the path. A container that has not exited gives its own message.
func TerminationMessage(c *podsync.RuntimeContainer, readFile func(path string, limit int64) (string, error), readLogs func(path string, maxBytes int64, maxLines int) (string, error)) string {
	return ""
}

// ReadTerminationFile returns the last limit bytes of a regular file, "" if it
// does not exist. It follows no link at the path's end and does not block on a
// pipe or device that a container may have put there.
func ReadTerminationFile(path string, limit int64) (string, error) { return "", nil }
