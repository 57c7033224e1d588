// Package hostpath is the plugin of hostPath volumes: a path of the node itself.
package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/plugin"
)

// Plugin serves hostPath volumes. The zero value is ready to use.
type Plugin struct{}

var _ plugin.Plugin = Plugin{}

// Name returns "kubernetes.io/host-path".
func (Plugin) Name() string { return "kubernetes.io/host-path" }

// CanSupport tells whether the volume is a hostPath.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.HostPath != nil }

// Attributes: the node's files are neither given to fsGroup nor relabelled.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes { return plugin.Attributes{} }

// SetUp checks that the path is of the type asked for, following links, and
// makes it first for the types that say so. A failed check is a *TypeError.
func (Plugin) SetUp(_ context.Context, r *plugin.Request) (plugin.Mounted, error) {
	src := r.Volume.HostPath
	if err := validate(src.Path); err != nil {
		return plugin.Mounted{}, err
	}
	t := corev1.HostPathUnset
	if src.Type != nil {
		t = *src.Type
	}
	if err := check(src.Path, t); err != nil {
		return plugin.Mounted{}, err
	}
	return plugin.Mounted{Path: src.Path}, nil
}

// TearDown does nothing: what is at the path stays. It holds nothing below the
// pod's directory.
func (Plugin) TearDown(context.Context, *plugin.Removal) error { return nil }

// TypeError says that a path of the host is not what the volume asks for.
type TypeError struct {
	// Path is the path on the host.
	Path string
	// Type is what was asked for.
	Type corev1.HostPathType
	// Missing: there is nothing at all.
	Missing bool
}

// Error names the path and the type.
func (e *TypeError) Error() string {
	if e.Missing {
		return fmt.Sprintf("hostPath type check failed: %s does not exist, want %s", e.Path, e.Type)
	}
	return fmt.Sprintf("hostPath type check failed: %s is not a %s", e.Path, e.Type)
}

func validate(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("hostPath %q must be absolute", path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return fmt.Errorf(`hostPath %q must not contain ".."`, path)
	}
	return nil
}

func check(path string, t corev1.HostPathType) error {
	var is func(fs.FileMode) bool
	var make func(string) error
	switch t {
	case corev1.HostPathUnset:
		return nil
	case corev1.HostPathDirectoryOrCreate:
		is, make = fs.FileMode.IsDir, func(p string) error { return plugin.MakeDirs(p, 0o755) }
	case corev1.HostPathDirectory:
		is = fs.FileMode.IsDir
	case corev1.HostPathFileOrCreate:
		is, make = fs.FileMode.IsRegular, makeFile
	case corev1.HostPathFile:
		is = fs.FileMode.IsRegular
	case corev1.HostPathSocket:
		is = func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 }
	case corev1.HostPathCharDev:
		is = func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 }
	case corev1.HostPathBlockDev:
		is = func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 }
	default:
		return fmt.Errorf("hostPath type %q is unknown", t)
	}
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && make != nil {
		return make(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &TypeError{Path: path, Type: t, Missing: true}
	case err != nil:
		return fmt.Errorf("check hostPath: %w", err)
	case !is(fi.Mode()):
		return &TypeError{Path: path, Type: t}
	}
	return nil
}

// makeFile makes an empty file of mode 0644. Its directory must exist.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make file for hostPath: %w", err)
	}
	return errors.Join(f.Chmod(0o644), f.Close())
}
