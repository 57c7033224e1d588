package realruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spec says what program to run.
type spec struct {
	Path   string
	Args   []string
	Env    []string
	Stdout io.Writer
	Stderr io.Writer
}

// process is a running child. It is killed by the kernel when this process dies.
type process struct {
	pid  int
	done chan struct{} // closed after the child was waited for
	err  error         // why it ended; valid after done
}

// startProcess starts a child in a process group of its own, so that a Ctrl-C at the terminal reaches only us.
func startProcess(s spec) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	// The goroutine ends with the child. It holds its thread, because the kernel's parent-death signal is
	// tied to the thread that forked, not to the process.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(s.Path, s.Args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, s.Stdout, s.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		// Descendants that keep our pipe open must not keep Wait from returning.
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// exit is why the process ended.
func (p *process) exit() error {
	if p.err == nil {
		return errors.New("with exit code 0")
	}
	return p.err
}

// kill ends the process at once and waits for it.
func (p *process) kill() {
	_ = syscall.Kill(p.pid, syscall.SIGKILL) // fails only when it is gone
	<-p.done
}

// stop asks the process to end, and kills it when it has not after the time or when ctx ends.
func (p *process) stop(ctx context.Context, limit time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	_ = syscall.Kill(p.pid, syscall.SIGTERM) // fails only when it is gone
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
	case <-time.After(limit):
		p.kill()
	}
}

// procInfo is one line of the process table.
type procInfo struct {
	pid, parent int
	args        []string
	cgroups     string // the text of /proc/PID/cgroup
}

// processes reads the process table. Processes that end meanwhile are left out.
func processes() ([]procInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	var all []procInfo
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fields, err := statFields(pid)
		if err != nil || fields[0] == "Z" {
			continue
		}
		cmdline, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue
		}
		cgroups, err := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		if err != nil {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, procInfo{
			pid: pid, parent: parent, cgroups: string(cgroups),
			args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"),
		})
	}
	return all, nil
}

// statFields returns the fields of /proc/PID/stat from the third on: state, parent, …. The second, the
// program's name, may contain anything, also blanks and brackets.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return nil, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	return fields, nil
}

// startTime is when a process started, in clock ticks since boot. With the PID it names a process for good.
func startTime(pid int) (string, error) {
	fields, err := statFields(pid)
	if err != nil {
		return "", err
	}
	return fields[19], nil
}

// alive tells whether the process that started the instance still runs.
func (i instance) alive() bool {
	started, err := startTime(i.PID)
	return err == nil && started == i.StartTime
}
