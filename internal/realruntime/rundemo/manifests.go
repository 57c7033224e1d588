package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
)

// What the manifests say about the registry.
const (
	manifestRegistry = "127.0.0.1:5055"
	password         = "not-a-real-secret"
)

// prepare makes the run's directories and copies the manifests there, because they are removed in the end, and
// the registry may be elsewhere than they say. Below containerd's root directory, what is left when this process
// is killed is swept by the next run.
func (d *demo) prepare(parent, registry string) error {
	dir, err := os.MkdirTemp(parent, "podsync-demo-")
	if err != nil {
		return err
	}
	d.dir = dir
	for _, sub := range []string{"manifests", "objects", "root", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	n, err := copyManifests(d.manifests, filepath.Join(dir, "manifests"), registry)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("no manifest in %s", d.manifests)
	}
	_, err = copyManifests(filepath.Join(d.manifests, "objects"), filepath.Join(dir, "objects"), registry)
	return err
}

// copyManifests copies the files of a directory, with the registry's address in the place of the one they name.
func copyManifests(from, to, registry string) (int, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return 0, fmt.Errorf("read the manifests: %w", err)
	}
	n := 0
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return n, fmt.Errorf("read the manifests: %w", err)
		}
		b = bytes.ReplaceAll(b, []byte(manifestRegistry), []byte(registry))
		if err := os.WriteFile(filepath.Join(to, e.Name()), b, 0o600); err != nil {
			return n, fmt.Errorf("copy the manifests: %w", err)
		}
		n++
	}
	return n, nil
}

// removeAll removes a directory, but nothing that is mounted in it: then something was not unmounted.
func removeAll(dir string) error {
	if dir == "" {
		return nil // it was not made
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %s: %w: %s", dir, errMounted, mounts[0].Mountpoint)
	}
	return os.RemoveAll(dir)
}

// errMounted: the agent left a mount.
var errMounted = errors.New("something is still mounted there")

// freeAddress returns the address if nobody listens there, else one with a free port.
func freeAddress(address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		host, _, splitErr := net.SplitHostPort(address)
		if splitErr != nil {
			return address // whoever listens there will say what is wrong
		}
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return address
		}
	}
	defer l.Close()
	return l.Addr().String()
}
