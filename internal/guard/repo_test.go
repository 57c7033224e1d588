package guard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the module's path, root its directory as seen from this package.
const (
	module = "github.com/podsync/sdk"
	root   = "../.."
)

// pkg is a package as `go list` tells of it.
type pkg struct {
	ImportPath, Dir, Name, Doc                         string
	Standard                                           bool
	Imports                                            []string
	GoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
}

// rel is the package's path within the module: "podsync/node", "." for the root.
func (p *pkg) rel() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// library tells whether the package is one that others import: no program, no
// example, not internal.
func (p *pkg) library() bool {
	r := p.rel()
	return p.Name != "main" && r != "." && !strings.HasPrefix(r, "examples/") && !strings.HasPrefix(r, "internal/") && !strings.Contains(r, "/internal/")
}

// listed asks the go command once for the module's packages and all they need.
var listed = sync.OnceValues(func() (map[string]*pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Name,Doc,Standard,Imports,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(stderr.String())
	}
	all := map[string]*pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// graph returns every package that the module's packages need, by import path.
func graph(t *testing.T) map[string]*pkg {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ours returns the module's own packages, sorted by path.
func ours(t *testing.T) []*pkg {
	t.Helper()
	var own []*pkg
	for path, p := range graph(t) {
		if path == module || strings.HasPrefix(path, module+"/") {
			own = append(own, p)
		}
	}
	slices.SortFunc(own, func(a, b *pkg) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return own
}

// needs returns all packages that the package of that path pulls in, itself
// included.
func needs(all map[string]*pkg, path string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		if p := all[path]; p != nil {
			for _, i := range p.Imports {
				visit(i)
			}
		}
	}
	visit(path)
	return seen
}

// parsed is a file that was parsed.
type parsed struct {
	name string // within the module
	file *ast.File
	set  *token.FileSet
}

// at says where in the repository a node is.
func (s *parsed) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.set.Position(n.Pos()).Line)
}

// parse reads files of a package.
func parse(t *testing.T, p *pkg, names ...string) []*parsed {
	t.Helper()
	var out []*parsed
	for _, n := range names {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, n), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &parsed{name: filepath.ToSlash(filepath.Join(p.rel(), n)), file: f, set: set})
	}
	return out
}

// tracked returns the files of the repository, those not added yet included.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs a git checkout: %v", err)
	}
	files := strings.Fields(string(out))
	return slices.DeleteFunc(files, func(f string) bool {
		i, err := os.Stat(filepath.Join(root, f))
		return err != nil || !i.Mode().IsRegular()
	})
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
