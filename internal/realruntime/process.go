package realruntime

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// ProcessSpec says what program to run.
type ProcessSpec struct {
	// Path is the program, Args are its arguments without its name.
	Path string
	Args []string
	// Env is the whole environment; nil is that of this process.
	Env []string
	// Stdout and Stderr get what it writes; nil drops it.
	Stdout, Stderr io.Writer
}

// Process is a running child. It is in a process group of its own, so that a Ctrl-C at the terminal reaches
// only this process, and (on Linux) it is killed when this process dies. Its methods may be called from
// several goroutines.
type Process struct {
	child *os.Process
	done  chan struct{} // closed after the child was waited for
	err   error         // why it ended; valid after done
}

// StartProcess starts a child. A goroutine waits for it and ends with it.
func StartProcess(s ProcessSpec) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	// The goroutine holds its thread, because the kernel's parent-death signal is tied to the thread that
	// forked, not to the process.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command(s.Path, s.Args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, s.Stdout, s.Stderr
		cmd.SysProcAttr = childAttributes()
		// Descendants that keep our pipe open must not keep Wait from returning.
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.child = cmd.Process
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the process ID.
func (p *Process) PID() int { return p.child.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is why the process ended; never nil. Valid after Done.
func (p *Process) Err() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.child.Kill() // fails only when it is gone
	<-p.done
}

// Stop asks the process to end, by SIGTERM, and kills it when it has not after the time or when ctx ends.
func (p *Process) Stop(ctx context.Context, limit time.Duration) {
	if err := p.child.Signal(syscall.SIGTERM); err != nil {
		p.Kill() // gone, or a system without signals
		return
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
	case <-time.After(limit):
		p.Kill()
	}
}
