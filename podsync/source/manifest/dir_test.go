package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/podsync/sdk/podsync/source/manifest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for machines that do much else.
const patience = 60 * time.Second

// view is what a reader of a directory knows, and the history of it.
type view struct {
	mu    sync.Mutex
	files map[string]string
	log   []string
	calls int
	poke  chan struct{}
}

func (v *view) changed(files []manifest.File) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls++
	for _, f := range files {
		name := filepath.Base(f.Path)
		switch {
		case f.Gone:
			delete(v.files, name)
			v.log = append(v.log, "-"+name)
		case f.Err != nil:
			v.files[name] = "error: " + f.Err.Error()
			v.log = append(v.log, "!"+name)
		default:
			v.files[name] = string(f.Data)
			v.log = append(v.log, "+"+name+"="+string(f.Data))
		}
	}
	select {
	case v.poke <- struct{}{}:
	default:
	}
}

type runFunc func(ctx context.Context, changed func([]manifest.File)) error

// follow runs until the test ends, and waits for the first report.
func follow(t *testing.T, run runFunc) *view {
	t.Helper()
	v := &view{files: map[string]string{}, poke: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, v.changed) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	v.until(t, "the first report", func(*view) bool { return v.calls > 0 })
	return v
}

func (v *view) until(t *testing.T, what string, cond func(v *view) bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		v.mu.Lock()
		ok, files, log := cond(v), fmt.Sprint(v.files), fmt.Sprint(v.log)
		v.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-v.poke:
		case <-timeout:
			t.Fatalf("waiting for %s: files %s, history %s", what, files, log)
		}
	}
}

func (v *view) has(t *testing.T, want map[string]string) {
	t.Helper()
	v.until(t, fmt.Sprint(want), func(v *view) bool { return cmp.Equal(want, v.files) })
}

func (v *view) history() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.log, " ")
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// place puts a file in its place by renaming.
func place(t *testing.T, path, data string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path))
	write(t, tmp, data)
	must(t, os.Rename(tmp, path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// old makes a file look as if it had been there for long, so that the start
// does not wait for its writer.
func old(t *testing.T, path string) {
	t.Helper()
	past := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(path, past, past))
}

type files = map[string]string

func TestDir_everySystem(t *testing.T) {
	for name, runner := range map[string]func(d *manifest.Dir) runFunc{
		"native":    func(d *manifest.Dir) runFunc { return d.Run },
		"portable":  func(d *manifest.Dir) runFunc { return d.RunPortable },
		"unwatched": func(d *manifest.Dir) runFunc { d.Rescan = 20 * time.Millisecond; return d.RunUnwatched },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a"), "1")
			write(t, filepath.Join(dir, ".hidden"), "x")
			must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
			write(t, filepath.Join(dir, "sub", "c"), "x")
			v := follow(t, runner(&manifest.Dir{Path: dir, Settle: 30 * time.Millisecond}))
			v.has(t, files{"a": "1"})

			place(t, filepath.Join(dir, "b"), "2")
			v.has(t, files{"a": "1", "b": "2"})
			write(t, filepath.Join(dir, "b"), "longer")
			v.has(t, files{"a": "1", "b": "longer"})
			must(t, os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "c")))
			v.has(t, files{"a": "1", "c": "longer"})
			must(t, os.Remove(filepath.Join(dir, "a")))
			v.has(t, files{"c": "longer"})
			must(t, os.Symlink(filepath.Join(dir, "sub", "c"), filepath.Join(dir, "link")))
			v.has(t, files{"c": "longer", "link": "x"})
			must(t, os.RemoveAll(dir))
			v.has(t, files{})
			must(t, os.MkdirAll(dir, 0o755))
			place(t, filepath.Join(dir, "a"), "3")
			v.has(t, files{"a": "3"})
		})
	}
}

func TestDir_readsACompleteFileAtOnce(t *testing.T) {
	dir := t.TempDir()
	// With a Settle of a minute only what is known to be complete is read in time.
	v := follow(t, (&manifest.Dir{Path: dir, Settle: time.Minute, Rescan: time.Hour}).Run)
	begin := time.Now()
	place(t, filepath.Join(dir, "renamed"), "1")
	v.has(t, files{"renamed": "1"})
	t.Logf("rename to report: %v", time.Since(begin))
	write(t, filepath.Join(dir, "written"), "2")
	v.has(t, files{"renamed": "1", "written": "2"})
	must(t, os.Link(filepath.Join(dir, "written"), filepath.Join(dir, "linked")))
	v.has(t, files{"renamed": "1", "written": "2", "linked": "2"})
}

func TestCase_CFG_03_HalfWrittenFilesAreWaitedFor(t *testing.T) {
	dir := t.TempDir()
	v := follow(t, (&manifest.Dir{Path: dir, Settle: 300 * time.Millisecond}).Run)
	f, err := os.Create(filepath.Join(dir, "web.yaml"))
	must(t, err)
	for range 3 {
		_, err := f.WriteString("half")
		must(t, err)
		time.Sleep(350 * time.Millisecond) // longer than Settle, but the file is open
	}
	must(t, f.Close())
	v.has(t, files{"web.yaml": "halfhalfhalf"})
	if got, want := v.history(), "+web.yaml=halfhalfhalf"; got != want {
		t.Errorf("history: want %s, got %s", want, got)
	}
}

func TestCase_CFG_03_EditorMakesNoGap(t *testing.T) {
	dir := t.TempDir()
	web := filepath.Join(dir, "web.yaml")
	write(t, web, "old")
	old(t, web)
	v := follow(t, (&manifest.Dir{Path: dir, Settle: 2 * time.Second}).Run)
	v.has(t, files{"web.yaml": "old"})
	write(t, filepath.Join(dir, "4913"), "")
	must(t, os.Remove(filepath.Join(dir, "4913")))
	must(t, os.Rename(web, web+"~"))
	time.Sleep(20 * time.Millisecond) // an editor that takes its time
	write(t, web, "new")
	v.has(t, files{"web.yaml": "new"})
	must(t, os.Remove(web+"~"))
	must(t, os.Remove(web))
	v.has(t, files{})
	if got, want := v.history(), "+web.yaml=old +web.yaml=new -web.yaml"; got != want {
		t.Errorf("history: want %s, got %s", want, got)
	}
}

func TestCase_CFG_09_DirectoryComesGoesAndComesBack(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "pods")
	d := &manifest.Dir{Path: dir, Settle: 30 * time.Millisecond, Rescan: time.Hour}
	v := follow(t, d.Run)
	v.has(t, files{})
	must(t, os.MkdirAll(dir, 0o755))
	place(t, filepath.Join(dir, "a"), "1")
	v.has(t, files{"a": "1"})
	must(t, os.RemoveAll(filepath.Join(root, "etc")))
	v.has(t, files{})
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a"), "2")
	v.has(t, files{"a": "2"})
	// Another directory takes its place.
	other := filepath.Join(root, "other")
	must(t, os.Mkdir(other, 0o755))
	write(t, filepath.Join(other, "b"), "3")
	must(t, os.Rename(dir, filepath.Join(root, "gone")))
	must(t, os.Rename(other, dir))
	v.has(t, files{"b": "3"})
	place(t, filepath.Join(dir, "c"), "4")
	v.has(t, files{"b": "3", "c": "4"})
}

func TestDir_followsAMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n, data string) {
		must(t, os.Mkdir(filepath.Join(dir, "..v"+n), 0o755))
		write(t, filepath.Join(dir, "..v"+n, "web.yaml"), data)
		must(t, os.Symlink("..v"+n, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("1", "one")
	must(t, os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")))
	v := follow(t, (&manifest.Dir{Path: dir, Rescan: time.Hour}).Run)
	v.has(t, files{"web.yaml": "one"})
	version("2", "two")
	v.has(t, files{"web.yaml": "two"})
}

func TestDir_whatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644)) // opening one would block
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	write(t, filepath.Join(dir, "big"), strings.Repeat("x", 100))
	write(t, filepath.Join(dir, "fits"), strings.Repeat("x", 99))
	v := follow(t, (&manifest.Dir{Path: dir, MaxFileSize: 100, Settle: 20 * time.Millisecond}).Run)
	v.has(t, files{
		"dangling": "error: is a link to nowhere, which does not exist",
		"big":      "error: too large: 100 bytes, and only files of less than 100 are read",
		"fits":     strings.Repeat("x", 99),
	})
	write(t, filepath.Join(dir, "big"), "small")
	write(t, filepath.Join(dir, "nowhere"), "here")
	must(t, os.Remove(filepath.Join(dir, "fits")))
	must(t, os.Remove(filepath.Join(dir, "dangling")))
	v.has(t, files{"big": "small", "nowhere": "here"})
}

func TestDir_directoryThatCannotBeReadKeepsItsFiles(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "d")
	must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a"), "1")
	v := follow(t, (&manifest.Dir{Path: dir, Settle: 20 * time.Millisecond, Rescan: 30 * time.Millisecond}).Run)
	v.has(t, files{"a": "1"})
	must(t, os.Rename(dir, filepath.Join(root, "aside")))
	write(t, dir, "a file where the directory was")
	v.until(t, "the fault", func(v *view) bool {
		return strings.HasPrefix(v.files["d"], "error: reading the directory") && v.files["a"] == "1"
	})
	must(t, os.Remove(dir))
	must(t, os.Rename(filepath.Join(root, "aside"), dir))
	v.has(t, files{"a": "1"})
}

func TestDir_reportsEachContentOnce(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	write(t, a, "1")
	v := follow(t, (&manifest.Dir{Path: dir, Rescan: 10 * time.Millisecond, Settle: 5 * time.Millisecond}).Run)
	v.has(t, files{"a": "1"})
	old(t, a)                         // a touch
	place(t, a, "1")                  // the same once more
	time.Sleep(50 * time.Millisecond) // and some rescans
	place(t, a, "2")
	v.has(t, files{"a": "2"})
	if got, want := v.history(), "+a=1 +a=2"; got != want {
		t.Errorf("history: want %s, got %s", want, got)
	}
}

func TestDir_lostEvents(t *testing.T) {
	dir := t.TempDir()
	d := &manifest.Dir{Path: dir, Settle: 5 * time.Millisecond, Rescan: time.Hour}
	h := &manifest.Deaf{}
	v := follow(t, func(ctx context.Context, changed func([]manifest.File)) error { return h.Run(ctx, d, changed) })
	write(t, filepath.Join(dir, "a"), "1")
	h.Lose()
	v.has(t, files{"a": "1"})
	write(t, filepath.Join(dir, "b"), "2")
	h.Die()
	v.has(t, files{"a": "1", "b": "2"})
}

func TestDir_rescanFindsWhatNoEventTold(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	write(t, target, "1")
	must(t, os.Symlink(target, filepath.Join(dir, "a")))
	v := follow(t, (&manifest.Dir{Path: dir, Rescan: 20 * time.Millisecond, Settle: 5 * time.Millisecond}).Run)
	v.has(t, files{"a": "1"})
	write(t, target, "2")
	v.has(t, files{"a": "2"})
}

func TestDir_stopsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "1")
	done := make(chan error)
	go func() { done <- (&manifest.Dir{Path: dir, Settle: time.Hour}).Run(ctx, func([]manifest.File) {}) }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Run does not end")
	}
}
