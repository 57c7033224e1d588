package guard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/node"
	"github.com/podsync/sdk/podsync/source"
)

// pages returns the repository's pages for people.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(tracked(t), func(f string) bool { return !strings.HasSuffix(f, ".md") })
}

// lines returns a text's lines without indent.
func lines(text string) []string {
	l := strings.Split(strings.TrimSpace(text), "\n")
	for i := range l {
		l[i] = strings.TrimSpace(l[i])
	}
	return l
}

// Go code on a page is code that is compiled: each block stands in a file of the
// repository, but for the indent. A line "…" parts what stands apart.
func TestCodeOnPagesIsCompiled(t *testing.T) {
	var code strings.Builder
	for _, f := range tracked(t) {
		if strings.HasSuffix(f, ".go") && !strings.HasPrefix(f, "tools/") {
			code.WriteString(strings.Join(lines(read(t, f)), "\n") + "\n")
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```")
	for _, page := range pages(t) {
		for _, m := range blocks.FindAllStringSubmatch(read(t, page), -1) {
			for part := range strings.SplitSeq(m[1], "…\n") {
				want := strings.Join(lines(part), "\n")
				if !strings.Contains(code.String(), want+"\n") {
					t.Errorf("%s has code that no file of the repository has:\n%s", page, part)
				}
			}
		}
	}
}

// Links within the repository lead somewhere.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// The README shows the pipelines as they are.
func TestReadmeShowsThePipelines(t *testing.T) {
	rt := memory.New(memory.Options{})
	defer rt.Shutdown()
	n, err := node.New(node.Config{Runtime: rt, Images: rt, Root: t.TempDir(), Sources: []podsync.Source{&source.Memory{}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "docs/architecture.md"} {
		if want := a.Pipelines().String(); !strings.Contains(read(t, page), want) {
			t.Errorf("%s does not show the pipelines:\n%s", page, want)
		}
	}
}

// The README names every flag of the example agent, and no other.
func TestReadmeNamesTheFlags(t *testing.T) {
	defined := regexp.MustCompile(`fs\.\w+VarP?\(&f\.\w+, "([\w-]+)"`)
	var want []string
	for _, m := range defined.FindAllStringSubmatch(read(t, "examples/edgeagent/flags.go"), -1) {
		want = append(want, m[1])
	}
	if len(want) < 10 {
		t.Fatalf("only %d flags found in flags.go: %q", len(want), want)
	}
	row := regexp.MustCompile("(?m)^\\| `--?([\\w-]+)")
	var have []string
	for _, m := range row.FindAllStringSubmatch(read(t, "README.md"), -1) {
		have = append(have, m[1])
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("flags in flags.go: %q\nin the README:     %q", want, have)
	}
}

// The repository stands by itself: it does not name the hosts that packages come
// from where it is built, which differ from place to place.
func TestRepositoryStandsByItself(t *testing.T) {
	out, err := exec.Command("go", "env", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`[a-z0-9-]+(\.[a-z0-9-]+)+`).FindAllString(string(out), -1)
	for _, f := range tracked(t) {
		content := read(t, f)
		for _, w := range words {
			if i := strings.Index(content, w); i >= 0 {
				t.Errorf("%s:%d mentions %s", f, 1+strings.Count(content[:i], "\n"), w)
			}
		}
	}
}

// The shortest example stays short.
func TestQuickstartIsShort(t *testing.T) {
	if n := strings.Count(read(t, "examples/quickstart/main.go"), "\n"); n >= 40 {
		t.Errorf("examples/quickstart/main.go has %d lines; it is to have fewer than 40", n)
	}
}
