package memory_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"

	"github.com/podsync/sdk/cri/memory"
)

// loggingContainer makes a container whose log and termination message have a place.
func (n node) loggingContainer(dir string) (id, message string) {
	n.t.Helper()
	message = filepath.Join(dir, "message")
	n.ok(os.WriteFile(message, nil, 0o600))
	sandbox := n.sandbox(podConfig("web"))
	n.pull("busybox")
	c := containerConfig("app")
	c.LogPath = "app/0.log"
	c.Annotations = map[string]string{"io.kubernetes.container.terminationMessagePath": "/dev/termination-log"}
	c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/data", HostPath: dir}, {ContainerPath: "/dev/termination-log", HostPath: message}}
	id, err := n.CreateContainer(n.ctx(), sandbox, c, &runtimeapi.PodSandboxConfig{LogDirectory: dir})
	n.ok(err)
	n.ok(n.StartContainer(n.ctx(), id))
	return id, message
}

func TestLogsAndTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "app", "0.log")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{
		Log: []string{"one", "two\nthree"}, LogStderr: []string{"bad"}, TerminationMessage: "out of luck",
	})}})
	id, message := n.loggingContainer(dir)
	n.ok(n.Log("web-uid", "app", "later"))
	lines := func(path, want string) {
		t.Helper()
		data, err := os.ReadFile(path)
		n.ok(err)
		stamp := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`
		if got := regexp.MustCompile(stamp).ReplaceAllString(string(data), "T"); got != want {
			t.Errorf("%s:\n%swant\n%s", path, got, want)
		}
	}
	lines(log, "T stdout F one\nT stdout F two\nT stdout F three\nT stderr F bad\nT stdout F later\n")
	n.ok(os.Rename(log, log+".1"))
	n.ok(n.ReopenContainerLog(t.Context(), id))
	lines(log, "")
	n.ok(n.Exit("web-uid", "app", 1))
	if data, err := os.ReadFile(message); err != nil || string(data) != "out of luck" {
		t.Errorf("termination message %q, %v", data, err)
	}
	if err := n.ReopenContainerLog(t.Context(), id); status.Code(err) != codes.Unknown {
		t.Errorf("reopen after the end: %v", err)
	}
}

func TestNoLogs(t *testing.T) {
	for name, o := range map[string]memory.Options{"no directory": {}, "turned off": {NoLogs: true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if o.NoLogs {
				if err := os.Mkdir(filepath.Join(dir, "app"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			o.Rules = []memory.Rule{memory.Named("app", memory.Behaviour{Log: []string{"one"}})}
			n := newNode(t, o)
			n.loggingContainer(dir)
			if _, err := os.Stat(filepath.Join(dir, "app", "0.log")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a log was written: %v", err)
			}
		})
	}
}

func TestExecSync(t *testing.T) {
	boom := errors.New("no shell")
	run := func(_ context.Context, cmd []string) memory.ExecResult {
		switch cmd[0] {
		case "echo":
			return memory.ExecResult{Stdout: []byte("out"), Stderr: []byte("err")}
		case "false":
			return memory.ExecResult{ExitCode: 2, Stdout: []byte("out")}
		case "sleep":
			return memory.ExecResult{Duration: 10 * time.Second}
		}
		return memory.ExecResult{Err: boom}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{Exec: run})}})
		_, id := n.start("web")
		stdout, stderr, err := n.ExecSync(t.Context(), id, []string{"echo"}, time.Second)
		if string(stdout) != "out" || string(stderr) != "err" || err != nil {
			t.Errorf("echo: %q, %q, %v", stdout, stderr, err)
		}
		stdout, _, err = n.ExecSync(t.Context(), id, []string{"false"}, time.Second)
		if code, ok := errors.AsType[utilexec.CodeExitError](err); !ok || code.Code != 2 || string(stdout) != "out" {
			t.Errorf("false: %q, %v", stdout, err)
		}
		if _, _, err = n.ExecSync(t.Context(), id, []string{"other"}, 0); !errors.Is(err, boom) {
			t.Errorf("other: %v", err)
		}
		began := time.Now()
		if _, _, err = n.ExecSync(t.Context(), id, []string{"sleep"}, 0); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("sleep: %v after %s", err, time.Since(began))
		}
		began = time.Now()
		_, _, err = n.ExecSync(t.Context(), id, []string{"sleep"}, 3*time.Second)
		if !errors.Is(err, remote.ErrCommandTimedOut) || status.Code(err) != codes.DeadlineExceeded || time.Since(began) != 3*time.Second {
			t.Errorf("sleep beyond the timeout: %v after %s", err, time.Since(began))
		}
		ended := make(chan error, 1)
		go func() {
			_, _, err := n.ExecSync(t.Context(), id, []string{"sleep"}, 0)
			ended <- err
		}()
		synctest.Wait()
		n.ok(n.Exit("web-uid", "app", 0))
		if code, ok := errors.AsType[utilexec.CodeExitError](<-ended); !ok || code.Code != 137 {
			t.Errorf("the container ended meanwhile: %v", code)
		}
	})
}

func TestStats(t *testing.T) {
	n := newNode(t, memory.Options{Rules: []memory.Rule{memory.Named("app", memory.Behaviour{Usage: memory.Usage{MemoryBytes: 100, CPUNanoCores: 5, DiskBytes: 7}})}})
	sandbox, id := n.start("web")
	_, other := n.start("db")
	n.ok(n.StopContainer(t.Context(), other, 0))
	one, err := n.ContainerStats(t.Context(), id)
	n.ok(err)
	if one.Memory.WorkingSetBytes.Value != 100 || one.Cpu.UsageNanoCores.Value != 5 || one.WritableLayer.UsedBytes.Value != 7 {
		t.Errorf("container: %v", one)
	}
	list, err := n.ListContainerStats(t.Context(), nil)
	n.ok(err)
	if len(list) != 1 || list[0].Attributes.Id != id {
		t.Errorf("running containers: %v", list)
	}
	pod, err := n.PodSandboxStats(t.Context(), sandbox)
	n.ok(err)
	if pod.Linux.Memory.WorkingSetBytes.Value != 100 || len(pod.Linux.Containers) != 1 {
		t.Errorf("pod: %v", pod)
	}
	pods, err := n.ListPodSandboxStats(t.Context(), nil)
	n.ok(err)
	if len(pods) != 2 {
		t.Errorf("pods: %v", pods)
	}
}
