package memory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// terminationPathAnnotation is the kubelet's annotation of a container that names the message file.
const terminationPathAnnotation = "io.kubernetes.container.terminationMessagePath"

// writeLog writes what a container says when it starts. The lock is held: whoever sees the container running
// finds its log, and the two kinds of lines keep their order.
func (r *Runtime) writeLog(c *container) {
	for _, w := range []struct {
		stream string
		lines  []string
	}{{"stdout", c.behaviour.Log}, {"stderr", c.behaviour.LogStderr}} {
		if err := r.appendLog(c, w.stream, w.lines); err != nil {
			r.opt.Logger.Debug("log not written", "container", c.config.Metadata.Name, "err", err)
		}
	}
}

// appendLog creates the log file where its directory exists, and appends lines in the CRI log format. It
// keeps no file open, so a rotated file is left alone by itself.
func (r *Runtime) appendLog(c *container, stream string, lines []string) error {
	if r.opt.NoLogs || c.logPath == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(c.logPath)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := os.OpenFile(c.logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	now := r.opt.Clock.Now().UTC().Format(time.RFC3339Nano)
	var b strings.Builder
	for _, text := range lines {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(&b, "%s %s F %s\n", now, stream, line)
		}
	}
	_, err = f.WriteString(b.String())
	return errors.Join(err, f.Close())
}

// Log appends lines to the standard output of the newest running container of that name.
func (r *Runtime) Log(podUID, name string, lines ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.running(podUID, name)
	if err != nil {
		return err
	}
	return r.appendLog(c, "stdout", lines)
}

// writeTermination writes the termination message into the file that the agent has mounted for it. The file
// is never created here. The lock is held: whoever sees the container ended finds its message.
func (r *Runtime) writeTermination(c *container) {
	path := c.config.Annotations[terminationPathAnnotation]
	if r.opt.NoLogs || c.behaviour.TerminationMessage == "" || path == "" {
		return
	}
	for _, m := range c.config.Mounts {
		if m.ContainerPath != path {
			continue
		}
		f, err := os.OpenFile(m.HostPath, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(c.behaviour.TerminationMessage)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			r.opt.Logger.Debug("termination message not written", "container", c.config.Metadata.Name, "err", err)
		}
		return
	}
}
