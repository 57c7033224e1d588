package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"
)

// CRILogs is a Logs that reads the files that the runtime writes, where the
// runtime says they are and below Root.
type CRILogs struct {
	// Root is the directory that logs are below, links resolved: a pod that can
	// write to the directory of logs could else have any file of the node shown.
	// Required; "/" takes every file.
	Root string
	// Runtime knows where the log is, and whether the container still runs.
	Runtime internalapi.RuntimeService
}

var _ Logs = CRILogs{}

// ReadLogs implements Logs.
func (l CRILogs) ReadLogs(ctx context.Context, t LogTarget, o *corev1.PodLogOptions, stdout, stderr io.Writer) error {
	resp, err := l.Runtime.ContainerStatus(ctx, t.ID, false)
	if err != nil {
		return fmt.Errorf("%w of container %q of pod %s/%s: %w", ErrNoLog, t.Container, t.Pod.Namespace, t.Pod.Name, err)
	}
	path, err := l.confined(resp.GetStatus().GetLogPath())
	if err != nil {
		return fmt.Errorf("%w of container %q of pod %s/%s: %w", ErrNoLog, t.Container, t.Pod.Namespace, t.Pod.Name, err)
	}
	opts := &logs.LogOptions{TailLines: o.TailLines, LimitBytes: o.LimitBytes, Follow: o.Follow, Timestamp: o.Timestamps}
	switch {
	case o.SinceSeconds != nil:
		opts.Since = time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	case o.SinceTime != nil:
		opts.Since = o.SinceTime.Time
	}
	return logs.ReadLogs(klog.NewContext(ctx, logr.Discard()), path, t.ID, opts, l.Runtime, stdout, stderr)
}

// confined resolves the path's links, and refuses what is not a file below Root.
func (l CRILogs) confined(path string) (string, error) {
	root, err := filepath.EvalSymlinks(l.Root)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s leads out of the directory of logs %s", path, l.Root)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	return real, nil
}
