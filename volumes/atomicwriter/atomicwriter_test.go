package atomicwriter_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/volumes/atomicwriter"
)

func files(kv ...string) atomicwriter.Payload {
	p := atomicwriter.Payload{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i]] = atomicwriter.File{Data: []byte(kv[i+1]), Mode: 0o644}
	}
	return p
}

// shown is what a container sees in the directory.
func shown(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		real, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Errorf("dangling link %s: %v", e.Name(), err)
			continue
		}
		err = filepath.WalkDir(real, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			out[e.Name()+strings.TrimPrefix(p, real)] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func timeDirs(t testing.TB, dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..") {
			n++
		}
	}
	return n
}

func want(p atomicwriter.Payload) map[string]string {
	out := map[string]string{}
	for k, f := range p {
		out[k] = string(f.Data)
	}
	return out
}

func write(t testing.TB, dir string, p atomicwriter.Payload) bool {
	t.Helper()
	changed, err := (&atomicwriter.Writer{Dir: dir}).Write(p)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return changed
}

func TestCase_VOL_06_Update(t *testing.T) {
	dir := t.TempDir()
	v1, v2 := files("a", "1", "b", "1", "d/e", "1"), files("a", "2", "b", "2", "f", "2")
	write(t, dir, v1)
	if d := cmp.Diff(want(v1), shown(t, dir)); d != "" {
		t.Errorf("after v1 (-want +got):\n%s", d)
	}
	write(t, dir, v2)
	if d := cmp.Diff(want(v2), shown(t, dir)); d != "" {
		t.Errorf("after v2 (-want +got):\n%s", d)
	}
	if _, err := os.Lstat(filepath.Join(dir, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link d is still there: %v", err)
	}
	if n := timeDirs(t, dir); n != 1 {
		t.Errorf("%d directories of payloads, want 1", n)
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	if write(t, dir, v2) {
		t.Error("writing the same again reports a change")
	}
	if after, _ := os.Readlink(filepath.Join(dir, "..data")); after != before {
		t.Errorf("writing the same again moved ..data from %s to %s", before, after)
	}
}

func TestCase_VOL_06_ReaderNeverSeesAMix(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files("a", "0", "b", "0"))
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reads := 0
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			data, err := os.Readlink(filepath.Join(dir, "..data"))
			if err != nil {
				t.Errorf("..data: %v", err)
				return
			}
			a, errA := os.ReadFile(filepath.Join(dir, data, "a"))
			b, errB := os.ReadFile(filepath.Join(dir, data, "b"))
			if errA != nil || errB != nil {
				continue // the directory was replaced while we read
			}
			reads++
			if string(a) != string(b) {
				t.Errorf("a = %s and b = %s do not belong together", a, b)
				return
			}
		}
	})
	for i := range 300 {
		v := fmt.Sprint(i)
		write(t, dir, files("a", v, "b", v))
	}
	close(stop)
	reader.Wait()
	if reads == 0 {
		t.Error("the reader never read")
	}
}

// Whatever step fails or is the last before a power cut, v1 or v2 is there
// whole, and the next write makes it v2 with nothing left over.
func TestCase_VOL_06_FailureAtEveryStep(t *testing.T) {
	v1, v2 := files("a", "1", "b", "1", "d/e", "1"), files("a", "2", "b", "2", "f", "2")
	injected := errors.New("injected")
	for _, crash := range []bool{false, true} {
		for at := 0; ; at++ {
			dir := t.TempDir()
			write(t, dir, v1)
			n, failed := 0, ""
			w := &atomicwriter.Writer{Dir: dir}
			w.OnStep(func(step string) error {
				if n++; n-1 != at {
					return nil
				}
				failed = step
				if crash {
					panic(injected)
				}
				return injected
			})
			err := func() (err error) {
				defer func() {
					if x := recover(); x != nil {
						err = injected
					}
				}()
				_, err = w.Write(v2)
				return err
			}()
			if failed == "" {
				if at < 8 {
					t.Errorf("only %d steps were seen", at)
				}
				break
			}
			name := fmt.Sprintf("crash=%v before %q", crash, failed)
			if !errors.Is(err, injected) {
				t.Errorf("%s: error %v", name, err)
			}
			data, err := os.Readlink(filepath.Join(dir, "..data"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			a, _ := os.ReadFile(filepath.Join(dir, data, "a"))
			b, _ := os.ReadFile(filepath.Join(dir, data, "b"))
			if len(a) == 0 || string(a) != string(b) {
				t.Errorf("%s: a = %q, b = %q", name, a, b)
			}
			if n := timeDirs(t, dir); !crash && string(a) == "1" && n != 1 {
				t.Errorf("%s: %d directories of payloads are left, want 1", name, n)
			}
			write(t, dir, v2)
			if d := cmp.Diff(want(v2), shown(t, dir)); d != "" {
				t.Errorf("%s: after the next write (-want +got):\n%s", name, d)
			}
			if n := timeDirs(t, dir); n != 1 {
				t.Errorf("%s: %d directories of payloads, want 1", name, n)
			}
		}
	}
}

func TestCase_VOL_06_Paths(t *testing.T) {
	for _, test := range []struct {
		path string
		ok   bool
	}{
		{"a", true}, {"a/b", true}, {".hidden", true}, {"a..b", true}, {"a/..b", true},
		{"", false}, {"/a", false}, {"..", false}, {"../a", false}, {"a/../b", false}, {"a/..", false},
		{"..a", false}, {"..data", false}, {"./..a", false}, {".", false}, {"./", false}, {"a\x00b", false},
		{strings.Repeat("x", 256), false}, {strings.Repeat("x/", 3000) + "x", false},
	} {
		dir := t.TempDir()
		_, err := (&atomicwriter.Writer{Dir: dir}).Write(files(test.path, "x", "other", "y"))
		if ok := err == nil; ok != test.ok {
			t.Errorf("SEC-01, VOL-06: path %.20q: %v, want ok = %v", test.path, err, test.ok)
		}
		var pe *atomicwriter.PathError
		if err != nil && !errors.As(err, &pe) {
			t.Errorf("path %.20q: error %T is no *PathError", test.path, err)
		}
		if entries, _ := os.ReadDir(dir); err != nil && len(entries) > 0 {
			t.Errorf("path %.20q: something was written", test.path)
		}
	}
}

func TestConflictingPaths(t *testing.T) {
	for _, p := range []atomicwriter.Payload{files("a", "x", "a/b", "y"), files("a", "x", "./a", "y")} {
		if _, err := (&atomicwriter.Writer{Dir: t.TempDir()}).Write(p); err == nil {
			t.Errorf("%v was accepted", slices.Collect(maps.Keys(p)))
		}
	}
}

// An optional object that was missing may have left a directory of a subPath
// where a file is to be shown now.
func TestCase_VOL_05_DirectoryInTheWay(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files())
	if err := os.Mkdir(filepath.Join(dir, "app.properties"), 0o777); err != nil {
		t.Fatal(err)
	}
	v := files("app.properties", "x=1")
	write(t, dir, v)
	if d := cmp.Diff(want(v), shown(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestForeignEntriesStay(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files("a", "1"))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, dir, files("a", "2"))
	if _, err := os.Stat(filepath.Join(dir, "sub")); err != nil {
		t.Error(err)
	}
}

func TestModeAndOwnerOnlyChange(t *testing.T) {
	dir := t.TempDir()
	p := files("a", "1")
	write(t, dir, p)
	p["a"] = atomicwriter.File{Data: []byte("1"), Mode: 0o600}
	if !write(t, dir, p) {
		t.Error("a change of mode alone was not written")
	}
	if fi, err := os.Stat(filepath.Join(dir, "a")); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestComplete(t *testing.T) {
	dir := t.TempDir()
	if atomicwriter.Complete(dir) || atomicwriter.Complete(filepath.Join(dir, "no")) {
		t.Error("an empty directory is complete")
	}
	write(t, dir, files("a", "1", "b/c", "2"))
	if !atomicwriter.Complete(dir) {
		t.Error("a written directory is not complete")
	}
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if atomicwriter.Complete(dir) {
		t.Error("a directory without a link is complete")
	}
}

// After any sequence of writes the directory shows the last payload and nothing
// else, and the same payload again changes nothing.
func TestAnySequence(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d/e", "d/f", "g/h/i"})
	payload := rapid.MapOf(name, rapid.SampledFrom([]string{"", "1", "2"}))
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "writer")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for i, m := range rapid.SliceOfN(payload, 1, 4).Draw(rt, "payloads") {
			p := atomicwriter.Payload{}
			for k, v := range m {
				p[k] = atomicwriter.File{Data: []byte(v), Mode: 0o640}
			}
			write(t, dir, p)
			if d := cmp.Diff(m, shown(t, dir)); d != "" {
				rt.Fatalf("payload %d (-want +got):\n%s", i, d)
			}
			if write(t, dir, p) {
				rt.Fatalf("payload %d again was a change", i)
			}
			if n := timeDirs(t, dir); n != 1 || !atomicwriter.Complete(dir) {
				rt.Fatalf("payload %d: %d directories, complete %v", i, n, atomicwriter.Complete(dir))
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, bench := range []struct {
		name   string
		change bool
	}{{"unchanged", false}, {"changed", true}} {
		b.Run(bench.name, func(b *testing.B) {
			dir := b.TempDir()
			p := files("a", "1", "b", "1", "c", "1")
			write(b, dir, p)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if bench.change {
					p["a"] = atomicwriter.File{Data: []byte(fmt.Sprint(i)), Mode: 0o644}
				}
				write(b, dir, p)
			}
		})
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w := atomicwriter.Writer{Dir: dir, Now: func() time.Time { return time.Unix(0, 0).UTC() }}
	changed, err := w.Write(atomicwriter.Payload{"app/config": {Data: []byte("x=1"), Mode: 0o644}})
	b, _ := os.ReadFile(filepath.Join(dir, "app/config"))
	link, _ := os.Readlink(filepath.Join(dir, "app"))
	fmt.Println(changed, err, string(b), link)
	// Output: true <nil> x=1 ..data/app
}
