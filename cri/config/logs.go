package config

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// maxFileName is the length of a name that Linux file systems take.
const maxFileName = 255

// LogDirectory returns the directory of a pod's logs,
// <logsRoot>/<namespace>_<name>_<uid>. An empty logsRoot is DefaultLogsRoot. A
// name that is too long for a file system, or that is no single path element,
// is an error.
func LogDirectory(logsRoot string, pod *corev1.Pod) (string, error) {
	if logsRoot == "" {
		logsRoot = DefaultLogsRoot
	}
	for _, part := range [...]string{pod.Namespace, pod.Name, string(pod.UID)} {
		if !isElement(part) {
			return "", configErrorf("pod %s: log directory: %q is no path element", podsync.Ref(pod), part)
		}
	}
	name := pod.Namespace + "_" + pod.Name + "_" + string(pod.UID)
	if len(name) > maxFileName {
		return "", configErrorf("pod %s: log directory: namespace, name and UID together have %d characters, more than the %d that a file name may have",
			podsync.Ref(pod), len(name), maxFileName)
	}
	return filepath.Join(logsRoot, name), nil
}

// isElement tells whether s can be one element of a path.
func isElement(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// LogPath returns the log file of an instance of a container, relative to the
// pod's log directory: <name>/<restartCount>.log.
func LogPath(container string, restartCount int) string {
	return container + "/" + strconv.Itoa(restartCount) + ".log"
}

// LogSymlink returns the name of the legacy link to a container's log, for the
// directory /var/log/containers: <pod>_<namespace>_<container>-<id>.log, cut to
// 255 bytes.
func LogSymlink(pod *corev1.Pod, container, containerID string) string {
	const suffix = ".log"
	name := pod.Name + "_" + pod.Namespace + "_" + container + "-" + containerID
	return name[:min(len(name), maxFileName-len(suffix))] + suffix
}

// EnsureLogSymlink makes link point to target, replacing whatever link is there,
// a dangling one too. It is a convenience for people and log shippers: a
// failure must not keep a container from starting.
func EnsureLogSymlink(target, link string) error {
	if old, err := os.Readlink(link); err == nil && old == target {
		return nil
	}
	// The new link is renamed over the old one, so that there is always one. Its
	// name is short, since link's may be as long as names can be.
	h := fnv.New64a()
	h.Write([]byte(link))
	tmp := filepath.Join(filepath.Dir(link), fmt.Sprintf(".podsync-%x", h.Sum64()))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("log link: %w", err)
	}
	if err := os.Symlink(target, tmp); err != nil {
		return fmt.Errorf("log link: %w", err)
	}
	if err := os.Rename(tmp, link); err != nil {
		return errors.Join(fmt.Errorf("log link: %w", err), os.Remove(tmp))
	}
	return nil
}

// RestartCountFromLogs returns the restart count for the next instance of a
// container of which the runtime has no record, so that no log is overwritten:
// one more than the highest number among the <n>.log files of dir, rotated ones
// included; 0 when there are none or dir does not exist.
func RestartCountFromLogs(dir string) (int, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("restart count from logs: %w", err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return 0, fmt.Errorf("restart count from logs: %w", err)
	}
	next := 0
	for _, e := range entries {
		if n, ok := logNumber(e.Name()); ok && !e.IsDir() {
			next = max(next, n+1)
		}
	}
	return next, nil
}

// logNumber takes n out of "n.log" and "n.log.suffix". A number that no restart
// count can reach is somebody else's file.
func logNumber(name string) (int, bool) {
	digits, rest, ok := strings.Cut(name, ".")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	if rest != "log" && !strings.HasPrefix(rest, "log.") {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n >= math.MaxInt32 {
		return 0, false
	}
	return n, true
}
