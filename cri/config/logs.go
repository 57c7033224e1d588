package config

import corev1 "k8s.io/api/core/v1"

// LogDirectory returns the directory of a pod's logs,
// <logsRoot>/<namespace>_<name>_<uid>. An empty logsRoot is DefaultLogsRoot. A
// name that is too long for a file system, or that is no single path element,
// is an error.
func LogDirectory(logsRoot string, pod *corev1.Pod) (string, error) { return "", nil }

// LogPath returns the log file of an instance of a container, relative to the
// pod's log directory: <name>/<restartCount>.log.
func LogPath(container string, restartCount int) string { return "" }

// LogSymlink returns the name of the legacy link to a container's log, for the
// directory /var/log/containers: <pod>_<namespace>_<container>-<id>.log, cut to
// 255 bytes.
func LogSymlink(pod *corev1.Pod, container, containerID string) string { return "" }

// EnsureLogSymlink makes link point to target, replacing whatever link is there,
// a dangling one too. It is a convenience for people and log shippers: a
// failure must not keep a container from starting.
func EnsureLogSymlink(target, link string) error { return nil }

// RestartCountFromLogs returns the restart count for the next instance of a
// container of which the runtime has no record, so that no log is overwritten:
// one more than the highest number among the <n>.log files of dir, rotated ones
// included; 0 when there are none or dir does not exist.
func RestartCountFromLogs(dir string) (int, error) { return 0, nil }

// ReadLogTail returns the end of a container's log without the runtime's line
// headers: at most maxBytes bytes and maxLines lines. It reads a bounded piece
// of the file and follows no link at its end.
func ReadLogTail(path string, maxBytes int64, maxLines int) (string, error) { return "", nil }
