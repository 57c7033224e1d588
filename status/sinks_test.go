package status_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/status"
	"github.com/podsync/sdk/status/statustest"
)

func TestSinks(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		statustest.Sink(t, func(*testing.T) status.Sink { return &status.MemorySink{} })
	})
	t.Run("files", func(t *testing.T) {
		statustest.Sink(t, func(t *testing.T) status.Sink {
			return &status.FileSink{Dir: filepath.Join(t.TempDir(), "a", "b")}
		})
	})
	t.Run("durable files", func(t *testing.T) {
		statustest.Sink(t, func(t *testing.T) status.Sink { return &status.FileSink{Dir: t.TempDir(), Durable: true} })
	})
}

func TestFileSink_File(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	k := &status.FileSink{Dir: dir}
	r := statustest.Record(0)
	if err := k.Patch(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, string(r.UID)+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(data, &pod); err != nil {
		t.Fatalf("the file is no pod: %v\n%s", err, data)
	}
	if pod.Kind != "Pod" || pod.UID != r.UID || pod.Name != r.Name || pod.Namespace != r.Namespace || pod.Status.Phase != r.Status.Phase {
		t.Errorf("the file holds %s", data)
	}
	for p, want := range map[string]os.FileMode{dir: 0o700, path: 0o644} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", p, info.Mode().Perm(), want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files in the directory (%v), want 1", len(entries), err)
	}
}

// What cannot be a file name or a pod's identity never becomes a path.
func TestFileSink_HostileIdentity(t *testing.T) {
	dir := t.TempDir()
	k := &status.FileSink{Dir: filepath.Join(dir, "status")}
	good := status.Ref{UID: "u-1", Namespace: "default", Name: "web"}
	for _, change := range []func(*status.Ref){
		func(r *status.Ref) { r.UID = "" },
		func(r *status.Ref) { r.UID = ".." },
		func(r *status.Ref) { r.UID = "../x" },
		func(r *status.Ref) { r.UID = "a/b" },
		func(r *status.Ref) { r.UID = "-a" },
		func(r *status.Ref) { r.UID = "a\x00b" },
		func(r *status.Ref) { r.UID = types.UID(strings.Repeat("a", 129)) },
		func(r *status.Ref) { r.Namespace = "../x" },
		func(r *status.Ref) { r.Name = "a\nb" },
	} {
		ref := good
		change(&ref)
		if err := k.Patch(t.Context(), status.Record{Ref: ref}); err == nil {
			t.Errorf("Patch of %q is taken", ref)
		}
		if err := k.Delete(t.Context(), ref); err == nil {
			t.Errorf("Delete of %q is taken", ref)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written: %v %v", entries, err)
	}
	if err := (&status.FileSink{}).Patch(t.Context(), status.Record{Ref: good}); err == nil {
		t.Error("Patch without a directory is taken")
	}
}

func TestCase_REC_04_BadStatusFiles(t *testing.T) {
	dir := t.TempDir()
	k := &status.FileSink{Dir: dir}
	good := statustest.Record(1)
	if err := k.Patch(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, string(good.UID)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string][]byte{
		"truncated.json": whole[:len(whole)/2],
		"empty.json":     nil,
		"zeros.json":     make([]byte, 512),
		"moved.json":     whole, // another pod's
		"array.json":     []byte("[]"),
		"traversal.json": []byte(`{"metadata":{"uid":"traversal","namespace":"..","name":"x"}}`),
		"huge.json":      append([]byte(`{"x":"`), make([]byte, 5<<20)...),
	}
	for name, data := range bad {
		write(t, filepath.Join(dir, name), data)
	}
	write(t, filepath.Join(dir, ".tmp-123"), []byte("cut short"))
	write(t, filepath.Join(dir, "README"), []byte("not ours"))
	special := map[string]func(string) error{
		"link.json":      func(p string) error { return os.Symlink(filepath.Join(dir, string(good.UID)+".json"), p) },
		"directory.json": func(p string) error { return os.Mkdir(p, 0o700) },
		"fifo.json":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
	}
	for name, create := range special {
		if err := create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		bad[name] = nil
	}

	records, err := k.Load(t.Context())
	if len(records) != 1 || records[0].Ref != good.Ref {
		t.Errorf("Load returns %+v, want the one good record", records)
	}
	for name := range bad {
		if !strings.Contains(errText(err), filepath.Join(dir, name)) {
			t.Errorf("the error does not name %s", name)
		}
	}
	var be *status.BadRecordError
	if !errors.As(err, &be) || be.Path == "" {
		t.Errorf("error is %T, want a *BadRecordError in it", err)
	}
	if strings.Contains(errText(err), "README") {
		t.Error("the error names a file that is none of its business")
	}
	if _, err := os.Stat(filepath.Join(dir, ".tmp-123")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished write is still there: %v", err)
	}
	m := status.New(status.Options{Sinks: []status.Sink{k}})
	if err := m.Restore(t.Context()); err == nil {
		t.Error("Restore hides what it could not load")
	}
	if s, ok := m.Get(good.UID); !ok || s.Phase != run {
		t.Errorf("the good status was not restored: %v %v", s.Phase, ok)
	}
}

func TestFileSink_LoadWithoutADirectory(t *testing.T) {
	k := &status.FileSink{Dir: filepath.Join(t.TempDir(), "none")}
	if records, err := k.Load(t.Context()); len(records) != 0 || err != nil {
		t.Errorf("Load = %v, %v; a missing directory holds nothing", records, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	if _, err := (&status.FileSink{Dir: file}).Load(t.Context()); err == nil {
		t.Error("Load of a directory that is a file is no error")
	}
	if err := (&status.FileSink{Dir: file}).Patch(t.Context(), statustest.Record(0)); err == nil {
		t.Error("Patch into a directory that is a file is no error")
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
