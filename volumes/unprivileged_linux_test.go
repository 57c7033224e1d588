package volumes_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes"
	"github.com/podsync/sdk/volumes/volumestest"
)

// asNobody runs fn on a thread that has no privileges, if this process has any.
// The thread ends with it.
func asNobody(t *testing.T, dir string, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		fn()
		return
	}
	const nobody = 65534
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chown(dir, nobody, nobody))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: nobody else may get this thread
		keep := ^uintptr(0)
		_, _, e1 := unix.RawSyscall(unix.SYS_SETRESGID, keep, nobody, keep)
		_, _, e2 := unix.RawSyscall(unix.SYS_SETRESUID, keep, nobody, keep)
		if e1 != 0 || e2 != 0 {
			t.Error(e1, e2)
			return
		}
		fn()
	}()
	<-done
}

// Without privileges every failure says what is missing, and Unprivileged makes
// do without.
func TestWithoutPrivileges(t *testing.T) {
	root := t.TempDir()
	objects := &volumestest.Objects{}
	objects.SetSecret("key", map[string]string{"k": "1"})
	newManager := func(unprivileged bool) *volumes.Manager {
		m, err := volumes.New(volumes.Options{Layout: volumes.Layout{Root: root}, Objects: objects, Unprivileged: unprivileged})
		must(t, err)
		return m
	}
	gid := int64(1 << 20)
	group := volumestest.Pod("group", emptyDir("v", ""))
	group.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid}
	memory := volumestest.Pod("memory", secret("key", "key"))
	plain := volumestest.Pod("plain", emptyDir("v", ""))
	asNobody(t, root, func() {
		m := newManager(false)
		if _, err := m.Mount(t.Context(), group); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("fsGroup: error %v, want permission denied", err)
		}
		if _, err := m.Mount(t.Context(), memory); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "Options.Unprivileged") {
			t.Errorf("memory: error %v, want one that names the option", err)
		}
		v, err := m.Mount(t.Context(), plain)
		if err != nil {
			t.Errorf("a plain directory: %v", err)
			return
		}
		_, err = v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "v"}, "sub")
		if err == nil || !strings.Contains(err.Error(), "no right to mount") || strings.Contains(err.Error(), root) {
			t.Errorf("subPath: error %v", err)
		}
		m = newManager(true)
		for _, pod := range []*corev1.Pod{group, memory, plain} {
			v, err := m.Mount(t.Context(), pod)
			if err != nil {
				t.Errorf("unprivileged: %v", err)
				continue
			}
			name := pod.Spec.Volumes[0].Name
			if p, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: name}, ""); err != nil || !exists(p) {
				t.Errorf("unprivileged: %v", err)
			}
			if err := m.Remove(t.Context(), pod.UID); err != nil {
				t.Errorf("unprivileged: %v", err)
			}
		}
		v, err = m.Mount(t.Context(), plain)
		if err != nil {
			t.Error(err)
			return
		}
		p, err := v.HostPath(t.Context(), "main", 0, corev1.VolumeMount{Name: "v"}, "sub/dir")
		if fi, statErr := os.Stat(p); err != nil || statErr != nil || !fi.IsDir() {
			t.Errorf("unprivileged subPath: %q, %v, %v", p, err, statErr)
		}
		if err := m.Remove(t.Context(), "plain"); err != nil {
			t.Error(err)
		}
	})
}
