package guard_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range ours(t) {
		doc := p.Doc
		if len(p.GoFiles) == 0 { // tests only
			for _, s := range parse(t, p, slices.Concat(p.TestGoFiles, p.XTestGoFiles)...) {
				doc += s.file.Doc.Text()
			}
		}
		if doc == "" {
			t.Errorf("%s has no package comment", p.rel())
		} else if p.Name != "main" && !strings.HasPrefix(doc, "Package "+p.Name+" ") {
			t.Errorf("the comment of %s does not begin with %q: %s", p.rel(), "Package "+p.Name, doc)
		}
	}
}

func TestPackagesHaveExamples(t *testing.T) {
	for _, p := range ours(t) {
		if !p.library() {
			continue
		}
		found := false
		for _, s := range parse(t, p, slices.Concat(p.TestGoFiles, p.XTestGoFiles)...) {
			for _, d := range s.file.Decls {
				f, ok := d.(*ast.FuncDecl)
				found = found || ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
			}
		}
		if !found {
			t.Errorf("%s has no Example", p.rel())
		}
	}
}

// Every exported identifier of a library says what it is.
func TestExportedIsDocumented(t *testing.T) {
	for _, p := range ours(t) {
		if !p.library() {
			continue
		}
		for _, s := range parse(t, p, slices.Concat(p.GoFiles, p.IgnoredGoFiles)...) {
			for _, d := range s.file.Decls {
				undocumented(d, func(name string, n ast.Node) {
					t.Errorf("%s: %s has no comment", s.at(n), name)
				})
			}
		}
	}
}

// undocumented calls report for each exported identifier without a comment.
func undocumented(d ast.Decl, report func(name string, n ast.Node)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
			report(d.Name.Name, d)
		}
	case *ast.GenDecl:
		for _, sp := range d.Specs {
			switch sp := sp.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() && d.Doc == nil && sp.Doc == nil {
					report(sp.Name.Name, sp)
				}
			case *ast.ValueSpec:
				for _, n := range sp.Names {
					if n.IsExported() && d.Doc == nil && sp.Doc == nil && sp.Comment == nil {
						report(n.Name, sp)
					}
				}
			}
		}
	}
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if ix, ok := t.(*ast.IndexExpr); ok {
		t = ix.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// Library code ends no process, panics on nothing, makes up no context, registers
// nothing on import, and keeps no state outside of values.
func TestLibraryCode(t *testing.T) {
	calls := regexp.MustCompile(`^(panic|os\.Exit|log\.(Fatal|Panic)\w*|context\.(TODO|Background)|slog\.SetDefault|runtime\.Goexit)$`)
	for _, p := range ours(t) {
		if p.Name == "main" {
			continue
		}
		for _, s := range parse(t, p, slices.Concat(p.GoFiles, p.IgnoredGoFiles)...) {
			if strings.HasSuffix(s.name, "_test.go") {
				continue // of another system
			}
			for _, d := range s.file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					t.Errorf("%s: a package does nothing on import", s.at(f))
				}
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
					for _, sp := range g.Specs {
						if v := sp.(*ast.ValueSpec); !constantVar(v) {
							t.Errorf("%s: %s is a variable of the package; only errors, keys and what cannot change may be", s.at(v), v.Names[0].Name)
						}
					}
				}
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && calls.MatchString(callee(c)) {
					t.Errorf("%s: library code does not call %s", s.at(c), callee(c))
				}
				return true
			})
		}
	}
}

// A context that nobody thought about is in no file, tests and programs included.
func TestNoContextTODO(t *testing.T) {
	for _, f := range tracked(t) {
		if strings.HasSuffix(f, ".go") && strings.Contains(read(t, f), "context."+"TODO()") {
			t.Errorf("%s has a context.%s", f, "TODO")
		}
	}
}

// callee names what a call calls, as in "os.Exit".
func callee(c *ast.CallExpr) string {
	fun := c.Fun
	if ix, ok := fun.(*ast.IndexExpr); ok {
		fun = ix.X // a type argument
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// constantVar tells whether a variable of a package is an error, a key, an
// assertion of the compiler's, or of a type that nobody changes.
func constantVar(v *ast.ValueSpec) bool {
	name := v.Names[0].Name
	switch {
	case name == "_":
		return true
	case len(v.Values) == 0:
		return false
	case strings.HasPrefix(name, "Err"), strings.HasPrefix(name, "err"):
		return true
	}
	switch x := v.Values[0].(type) {
	case *ast.CallExpr:
		return slices.Contains([]string{"NewKey", "NewList", "podsync.NewKey", "podsync.NewList", "regexp.MustCompile"}, callee(x))
	case *ast.CompositeLit:
		a, ok := x.Type.(*ast.ArrayType)
		return ok && a.Len != nil
	}
	return false
}
