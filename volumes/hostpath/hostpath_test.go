package hostpath_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/hostpath"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/volumestest"
)

func request(path string, t corev1.HostPathType) *plugin.Request {
	return &plugin.Request{Volume: &corev1.Volume{Name: "vol", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &t},
	}}}
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	volumestest.Plugin(t, volumestest.Case{
		New: func() plugin.Plugin { return hostpath.Plugin{} }, Outside: true, Volume: *request(dir, corev1.HostPathDirectory).Volume,
	})
}

func TestCase_VOL_10_Types(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("dir"), 0o700))
	must(os.WriteFile(at("file"), nil, 0o600))
	must(os.Symlink("dir", at("link")))
	must(os.Symlink("nowhere", at("dangling")))
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", at("socket"))
	must(err)
	defer l.Close()

	const ok, wrong, missing, other = "ok", "wrong", "missing", "other error"
	var tests = []struct {
		path string
		want map[corev1.HostPathType]string
	}{
		{"missing", map[corev1.HostPathType]string{"": ok, "Directory": missing, "File": missing, "Socket": missing, "CharDevice": missing, "BlockDevice": missing}},
		{"dir", map[corev1.HostPathType]string{"": ok, "Directory": ok, "DirectoryOrCreate": ok, "File": wrong, "FileOrCreate": wrong, "Socket": wrong, "CharDevice": wrong, "BlockDevice": wrong}},
		{"file", map[corev1.HostPathType]string{"": ok, "Directory": wrong, "DirectoryOrCreate": wrong, "File": ok, "FileOrCreate": ok, "Socket": wrong, "CharDevice": wrong, "BlockDevice": wrong}},
		{"socket", map[corev1.HostPathType]string{"": ok, "Directory": wrong, "DirectoryOrCreate": wrong, "File": wrong, "FileOrCreate": wrong, "Socket": ok, "CharDevice": wrong, "BlockDevice": wrong}},
		{"/dev/null", map[corev1.HostPathType]string{"": ok, "Directory": wrong, "DirectoryOrCreate": wrong, "File": wrong, "FileOrCreate": wrong, "Socket": wrong, "CharDevice": ok, "BlockDevice": wrong}},
		{"link", map[corev1.HostPathType]string{"": ok, "Directory": ok, "DirectoryOrCreate": ok, "File": wrong}},
		{"dangling", map[corev1.HostPathType]string{"": ok, "Directory": missing, "DirectoryOrCreate": other, "File": missing}},
		{"no/parent", map[corev1.HostPathType]string{"FileOrCreate": other}},
		{"dir", map[corev1.HostPathType]string{"Dir": other}},
	}
	for _, test := range tests {
		path := test.path
		if !filepath.IsAbs(path) {
			path = at(path)
		}
		for typ, want := range test.want {
			t.Run(fmt.Sprintf("VOL-10 %s %q", test.path, typ), func(t *testing.T) {
				_, err := hostpath.Plugin{}.SetUp(t.Context(), request(path, typ))
				var te *hostpath.TypeError
				got := other
				switch {
				case err == nil:
					got = ok
				case errors.As(err, &te) && te.Missing:
					got = missing
				case errors.As(err, &te):
					got = wrong
				}
				if got != want {
					t.Errorf("SetUp: %v (%s), want %s", err, got, want)
				}
			})
		}
	}
	if _, err := os.Lstat(at("no")); err == nil {
		t.Error("FileOrCreate made a parent directory")
	}
}

// Makes paths once, with their own modes whatever the umask, and recovers when
// what was missing appears.
func TestCase_VOL_10_Creates(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	for _, test := range []struct {
		path string
		typ  corev1.HostPathType
		want fs.FileMode
	}{
		{"a/b", corev1.HostPathDirectoryOrCreate, 0o755 | fs.ModeDir},
		{"f", corev1.HostPathFileOrCreate, 0o644},
	} {
		path := filepath.Join(dir, test.path)
		for range 2 {
			if _, err := (hostpath.Plugin{}).SetUp(t.Context(), request(path, test.typ)); err != nil {
				t.Fatal(err)
			}
		}
		fi, err := os.Stat(path)
		if err != nil || fi.Mode() != test.want {
			t.Errorf("%s: mode %v, want %v (%v)", test.path, fi.Mode(), test.want, err)
		}
	}
	late := request(filepath.Join(dir, "late"), corev1.HostPathDirectory)
	if _, err := (hostpath.Plugin{}).SetUp(t.Context(), late); err == nil {
		t.Fatal("a missing directory passed")
	}
	if err := os.Mkdir(late.Volume.HostPath.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (hostpath.Plugin{}).SetUp(t.Context(), late); err != nil {
		t.Errorf("after the directory appeared: %v", err)
	}
	if fi, _ := os.Stat(late.Volume.HostPath.Path); fi.Mode().Perm() != 0o700 {
		t.Errorf("an existing directory got mode %v", fi.Mode())
	}
}

func TestCase_SEC_01_Paths(t *testing.T) {
	for _, p := range []string{"/var/log/../../etc", "relative", "", "../up", "/.."} {
		if _, err := (hostpath.Plugin{}).SetUp(t.Context(), request(p, corev1.HostPathUnset)); err == nil {
			t.Errorf("hostPath %q was accepted", p)
		}
	}
}

func ExamplePlugin_SetUp() {
	typ := corev1.HostPathCharDev
	r := &plugin.Request{Volume: &corev1.Volume{Name: "null", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/dev/null", Type: &typ},
	}}}
	m, err := hostpath.Plugin{}.SetUp(context.Background(), r)
	fmt.Println(m.Path, err)
	// Output: /dev/null <nil>
}
