package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"
)

// CRILogs is a Logs that reads the files that the runtime writes, wherever the
// runtime says they are.
type CRILogs struct {
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
	path := resp.GetStatus().GetLogPath()
	if _, err := os.Stat(path); err != nil {
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
