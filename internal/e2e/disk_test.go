package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// fill leaves so many bytes free on a small file system, in the file.
func fill(t *testing.T, path string, free int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var size int64
	for page := bytes.Repeat([]byte("x"), 4096); ; {
		n, err := f.Write(page)
		size += int64(n)
		if errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(max(size-free, 0)); err != nil {
		t.Fatal(err)
	}
}

// The disk is full while volumes are written: the pod that cannot be written says
// so, those that fit go on and start, and when there is space again the rest do.
func TestDiskFull(t *testing.T) {
	r := idleRig(t)
	// It goes with the rig, whose directory it is in.
	if err := unix.Mount("podsync-e2e", r.root, "tmpfs", 0, "size=2m,mode=0755"); err != nil {
		t.Fatal(err)
	}
	r.begin(t)
	r.apply(t, "runs", pod("runs", sleeper))
	runs := r.waitReady(t, "runs")

	filler := filepath.Join(r.root, "filler")
	fill(t, filler, 128<<10)
	r.object(t, "big", configMap("big", "text", strings.Repeat("0123456789abcdef", 400<<10/16)))
	r.apply(t, "big", pod("big", `
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: $REGISTRY/busybox:1, command: [sleep, "100000"], volumeMounts: [{name: cm, mountPath: /cm}]}]
  volumes: [{name: cm, configMap: {name: big}}]
`))
	said := func(name, reason, what string) func() error {
		return func() error {
			if e := r.events(name); !strings.Contains(e, "reason="+reason) || !strings.Contains(e, what) {
				return fmt.Errorf("no event %s of pod %s with %q:\n%s", reason, name, what, e)
			}
			return nil
		}
	}
	r.eventually(t, said("big", "FailedMount", "no space left on device"))
	r.wait(t, "big", "pending", inPhase(corev1.PodPending))
	r.apply(t, "fits", pod("fits", sleeper))
	fits := r.waitReady(t, "fits")

	fill(t, filler, 0)
	r.apply(t, "late", pod("late", sleeper))
	r.eventually(t, func() error {
		if e := r.events("late"); !strings.Contains(e, "no space left on device") {
			return fmt.Errorf("no event about the disk:\n%s", e)
		}
		return nil
	})
	untouched(t, runs, r.waitReady(t, "runs"))
	// A pod that goes needs no space, but for its last status.
	r.remove(t, "fits")
	r.eventually(t, func() error {
		left, err := r.leftovers(t.Context(), fits.UID)
		left = slices.DeleteFunc(left, func(l string) bool { return strings.Contains(l, "/status/") })
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, "; "))
		}
		return err
	})

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.waitGone(t, fits)
	big, late := r.waitReady(t, "big"), r.waitReady(t, "late")
	if got := r.sh(t, big, "app", "wc -c </cm/text"); got != fmt.Sprint(400<<10) {
		t.Errorf("the config map in the container has %s bytes", got)
	}
	untouched(t, runs, r.waitReady(t, "runs"))
	r.eventually(t, func() error {
		b, err := os.ReadFile(filepath.Join(r.root, "status", string(late.UID)+".json"))
		if err == nil && !strings.Contains(string(b), late.Status.PodIP) {
			err = fmt.Errorf("the status file has %s", b)
		}
		return err
	})
}
