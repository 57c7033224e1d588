package realruntime

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes: a process group of its own, and death with the parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
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

// alive tells whether the process that started the instance still runs. One of another PID namespace, which
// shares the temporary directory with us, cannot be asked: it counts as alive.
func (i instance) alive() bool {
	space, err := pidSpace()
	if err != nil || space != i.PIDSpace {
		return true
	}
	fields, err := statFields(i.PID)
	// A zombie has ended; that nobody waited for it does not matter.
	return err == nil && fields[0] != "Z" && fields[19] == i.StartTime
}

// pidSpace names the PID namespace of this process.
func pidSpace() (string, error) { return os.Readlink("/proc/self/ns/pid") }
