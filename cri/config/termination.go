package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
	if c.TerminationMessagePath == "" || dir == "" {
		return "", nil
	}
	if !isElement(c.Name) {
		return "", configErrorf("container %q: its name is no path element", c.Name)
	}
	return filepath.Join(dir, c.Name, strconv.Itoa(restartCount)), nil
}

// CreateTerminationFile makes an empty termination message file with mode 0666
// at path, and its directory, below root (podsync.Dirs.Containers), which must
// exist. It is idempotent, keeps no content of an earlier try, and is never led
// out of root by a link.
func CreateTerminationFile(root, path string) (err error) {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("termination message file %s is not below %s", path, root)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("termination message file: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if dir := filepath.Dir(rel); dir != "." {
		if err := r.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("termination message file: %w", err)
		}
	}
	f, err := r.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("termination message file: %w", err)
	}
	// The umask does not count: any user of the container may write it.
	if err := errors.Join(f.Chmod(0o666), f.Close()); err != nil {
		return fmt.Errorf("termination message file: %w", err)
	}
	return nil
}

// TerminationMessage returns the message of an exited container: the content of
// its termination message file, or the end of its log when the file is empty,
// the container failed and its policy is FallbackToLogsOnError. The runtime's
// own message, if any, comes first. readFile and readLogs are ReadTerminationFile
// and ReadLogTail or stand-ins; what they cannot read is said in the message,
// without the path. A container that has not exited gives its own message.
func TerminationMessage(c *podsync.RuntimeContainer, readFile func(path string, limit int64) (string, error), readLogs func(path string, maxBytes int64, maxLines int) (string, error)) string {
	if c.State != podsync.ContainerExited {
		return c.Message
	}
	text, err := "", error(nil)
	if host := terminationHostPath(c); host != "" {
		if text, err = readFile(host, MaxTerminationMessage); err != nil {
			text = "the termination message cannot be read: " + bareCause(err)
		}
		text = text[max(0, len(text)-MaxTerminationMessage):]
	}
	if text == "" && err == nil && fallsBackToLogs(c) {
		if text, err = readLogs(c.LogPath, MaxTerminationLog, MaxTerminationLogLines); err != nil {
			text = "the end of the log cannot be read: " + bareCause(err)
		}
		text = text[max(0, len(text)-MaxTerminationLog):]
	}
	// A container writes what it likes, and a cut may go through a character.
	text = strings.ToValidUTF8(text, "\uFFFD")
	switch {
	case text == "":
		return c.Message
	case c.Message == "":
		return text
	default:
		return c.Message + ": " + text
	}
}

// terminationHostPath finds the message file among the container's mounts, for
// its name on the host may be another agent's choice. Where a volume is mounted
// there too, the later mount is what the container saw, and that is the file.
func terminationHostPath(c *podsync.RuntimeContainer) string {
	want := c.Annotations[AnnotationTerminationMessagePath]
	if want == "" {
		return ""
	}
	want = absolute(want)
	for _, m := range slices.Backward(c.Mounts) {
		if path.Clean(m.ContainerPath) == want {
			return m.HostPath
		}
	}
	return ""
}

// fallsBackToLogs leaves out containers that could not be started at all: they
// have no log.
func fallsBackToLogs(c *podsync.RuntimeContainer) bool {
	policy := corev1.TerminationMessagePolicy(c.Annotations[AnnotationTerminationMessagePolicy])
	return policy == corev1.TerminationMessageFallbackToLogsOnError && c.ExitCode != 0 &&
		c.Reason != "ContainerCannotRun" && c.LogPath != ""
}

// bareCause is the error without the path that *fs.PathError puts before it.
func bareCause(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return "it is no regular file"
}

// ReadTerminationFile returns the last limit bytes of a regular file, "" if it
// does not exist. It follows no link at the path's end and does not block on a
// pipe or device that a container may have put there.
func ReadTerminationFile(path string, limit int64) (string, error) {
	data, _, err := readTail(path, limit)
	return string(data), err
}
