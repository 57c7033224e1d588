package realruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hostFile remembers, while instances run, what they change for the whole machine, and which they are: the
// bridge plugin turns IP forwarding on, libcni and runc make a few directories. The last one puts it back.
const hostFile = "/run/podsync-realruntime.json"

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// hostState is the content of hostFile.
type hostState struct {
	Roots     []string `json:"roots"`     // of the instances
	IPForward string   `json:"ipForward"` // before the first of them
	Absent    []string `json:"absent"`    // directories that were not there then, parents first
	HostPorts bool     `json:"hostPorts"` // the portmap plugin's common chains were there
}

// sharedDirs are made by the first pod and have no setting.
func sharedDirs() ([]string, error) {
	dirs := []string{"/var/lib/cni", cniCache, "/run/containerd", "/run/containerd/s"}
	hierarchies, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	for _, h := range hierarchies {
		dirs = append(dirs, filepath.Join(h, "k8s.io"))
	}
	return dirs, nil
}

// hostRoots returns the root directories of all instances, dead ones included.
func hostRoots() ([]string, error) {
	var roots []string
	err := withHost(func(s *hostState) error {
		roots = s.Roots
		return nil
	})
	return roots, err
}

// registerHost adds an instance; the first one looks at the machine.
func registerHost(ctx context.Context, root string) error {
	return withHost(func(s *hostState) error {
		if s.IPForward == "" {
			if err := s.look(ctx); err != nil {
				return err
			}
		}
		s.Roots = append(s.Roots, root)
		return nil
	})
}

// look takes down what the machine has.
func (s *hostState) look(ctx context.Context) error {
	b, err := os.ReadFile(ipForward)
	if err != nil {
		return err
	}
	table, err := natTable(ctx)
	if err != nil {
		return err
	}
	dirs, err := sharedDirs()
	if err != nil {
		return err
	}
	s.IPForward, s.HostPorts, s.Absent = strings.TrimSpace(string(b)), strings.Contains(table, ":"+hostPortChains), nil
	for _, d := range dirs {
		if _, err := os.Lstat(d); errors.Is(err, os.ErrNotExist) {
			s.Absent = append(s.Absent, d)
		}
	}
	return nil
}

// unregisterHost takes an instance away; with the last one the machine gets back what it had.
func unregisterHost(ctx context.Context, root string) error {
	return withHost(func(s *hostState) error {
		s.Roots = slices.DeleteFunc(s.Roots, func(r string) bool { return r == root })
		if len(s.Roots) > 0 || s.IPForward == "" {
			return nil
		}
		return s.restore(ctx)
	})
}

// restore puts back what look took down.
func (s *hostState) restore(ctx context.Context) error {
	for _, d := range slices.Backward(s.Absent) {
		_ = os.Remove(d) // stays when somebody else uses it
	}
	if !s.HostPorts {
		table, err := natTable(ctx)
		if err != nil {
			return err
		}
		if err := applyRules(ctx, undoHostPorts(table)); err != nil {
			return err
		}
	}
	if s.IPForward != "0" {
		return nil
	}
	return os.WriteFile(ipForward, []byte("0"), 0)
}

// withHost changes the file under a lock, and removes it when no instance is left.
func withHost(change func(*hostState) error) error {
	f, err := lockHost()
	if err != nil {
		return fmt.Errorf("lock %s: %w", hostFile, err)
	}
	defer f.Close() // releases the lock
	var s hostState
	b, err := os.ReadFile(hostFile)
	if err != nil {
		return err
	}
	if json.Unmarshal(b, &s) != nil {
		s = hostState{} // new, or cut short by a crash
	}
	// An instance whose directory somebody else removed has nothing left to undo.
	s.Roots = slices.DeleteFunc(s.Roots, func(root string) bool {
		_, err := os.Lstat(root)
		return errors.Is(err, os.ErrNotExist)
	})
	if err := change(&s); err != nil {
		return err
	}
	if len(s.Roots) == 0 {
		return os.Remove(hostFile)
	}
	if b, err = json.Marshal(s); err != nil {
		return err
	}
	// In place, because the lock is on this file.
	return os.WriteFile(hostFile, b, 0o600)
}

// lockHost opens the file and locks it; when another process removed it meanwhile, again.
func lockHost() (*os.File, error) {
	for {
		f, err := os.OpenFile(hostFile, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, err
		}
		opened, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if current, err := os.Lstat(hostFile); err == nil && os.SameFile(opened, current) {
			return f, nil
		}
		f.Close()
	}
}
