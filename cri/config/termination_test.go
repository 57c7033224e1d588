package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/podsync"
)

func TestTerminationMessage(t *testing.T) {
	exited, fallback := podsync.ContainerExited, string(corev1.TerminationMessageFallbackToLogsOnError)
	for _, tt := range []struct {
		name        string
		state       podsync.ContainerState
		policy      string
		exit        int32
		reason, own string
		file, log   string
		fileErr     error
		want        string
	}{
		{name: "running", state: podsync.ContainerRunning, file: "x"},
		{name: "file", state: exited, file: "bye", log: "log", policy: fallback, exit: 1, want: "bye"},
		{name: "after the runtime's own", state: exited, own: "oom", file: "bye", want: "oom: bye"},
		{name: "log", state: exited, log: "log", policy: fallback, exit: 1, want: "log"},
		{name: "log, policy File", state: exited, log: "log", policy: "File", exit: 1},
		{name: "log, exit 0", state: exited, log: "log", policy: fallback},
		{name: "log, never started", state: exited, log: "log", policy: fallback, exit: 128, reason: "ContainerCannotRun"},
		{name: "file fails", state: exited, fileErr: &fs.PathError{Op: "open", Path: "/host/x", Err: syscall.EACCES}, policy: fallback, exit: 1, log: "log", want: "the termination message cannot be read: permission denied"},
		{name: "bad UTF-8", state: exited, file: "a\xffb", want: "a\uFFFDb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &podsync.RuntimeContainer{
				State: tt.state, ExitCode: tt.exit, Reason: tt.reason, Message: tt.own, LogPath: "/logs/0.log",
				Annotations: map[string]string{config.AnnotationTerminationMessagePath: "dev/log", config.AnnotationTerminationMessagePolicy: tt.policy},
				Mounts:      []podsync.RuntimeMount{{ContainerPath: "/data", HostPath: "/no"}, {ContainerPath: "/dev/log", HostPath: "/volume"}, {ContainerPath: "/dev/log", HostPath: "/host/x"}},
			}
			got := config.TerminationMessage(c, func(path string, limit int64) (string, error) {
				if path != "/host/x" || limit != 4096 {
					t.Errorf("read %d of %s", limit, path)
				}
				return tt.file, tt.fileErr
			}, func(path string, bytes int64, lines int) (string, error) {
				if path != "/logs/0.log" || bytes != 2048 || lines != 80 {
					t.Errorf("read %d, %d of %s", bytes, lines, path)
				}
				return tt.log, nil
			})
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCase_SEC_05_TerminationMessageIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "msg")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<30), f.Close()); err != nil { // sparse
		t.Fatal(err)
	}
	got, err := config.ReadTerminationFile(path, config.MaxTerminationMessage)
	if err != nil || len(got) != 4096 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("a", 5000)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := config.ReadTerminationFile(path, 4096); err != nil || len(got) != 4096 || !strings.HasSuffix(got, "aend") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := config.ReadTerminationFile(filepath.Join(dir, "none"), 10); got != "" || err != nil {
		t.Errorf("missing: %q, %v", got, err)
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("/etc/passwd", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, pipe, dir} {
		if got, err := config.ReadTerminationFile(p, 10); err == nil {
			t.Errorf("%s was read: %q", p, got)
		}
	}
	// A reader that does not keep to the limit does no harm either.
	c := &podsync.RuntimeContainer{
		State: podsync.ContainerExited, Annotations: map[string]string{config.AnnotationTerminationMessagePath: "/m"},
		Mounts: []podsync.RuntimeMount{{ContainerPath: "/m", HostPath: "/h"}},
	}
	msg := config.TerminationMessage(c, func(string, int64) (string, error) { return strings.Repeat("é", 1<<20), nil }, nil)
	if len(msg) > 4100 || !utf8.ValidString(msg) {
		t.Errorf("%d bytes", len(msg))
	}
}

func TestTerminationFile(t *testing.T) {
	root := t.TempDir()
	c := app(newPod())
	path, err := config.TerminationFile(root, c, 2)
	if err != nil || path != filepath.Join(root, "app", "2") {
		t.Fatal(path, err)
	}
	for range 2 {
		if err := config.CreateTerminationFile(root, path); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o666 || st.Size() != 0 {
			t.Errorf("mode %v, size %d, %v", st.Mode(), st.Size(), err)
		}
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c.Name = "../x"
	if got, err := config.TerminationFile(root, c, 0); err == nil {
		t.Errorf("accepted as %s", got)
	}
	c.TerminationMessagePath = ""
	if got, err := config.TerminationFile(root, c, 0); got != "" || err != nil {
		t.Error(got, err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(root, "evil")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{filepath.Join(root, "evil", "0"), filepath.Join(root, "..", "x"), root} {
		if err := config.CreateTerminationFile(root, p); err == nil {
			t.Errorf("%s was made", p)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("written outside: %v", entries)
	}
}
