package guard_test

import (
	"slices"
	"strings"
	"testing"
)

// coreBudget is the most packages that the core may pull in, the standard
// library's included. k8s.io/api/core/v1 alone needs some 270.
const coreBudget = 300

func TestCoreBudget(t *testing.T) {
	all := graph(t)
	deps := needs(all, module+"/podsync")
	delete(deps, "C")
	if n := len(deps); n > coreBudget {
		t.Errorf("package podsync pulls in %d packages, its budget is %d; they are listed by: go list -deps ./podsync", n, coreBudget)
	} else {
		t.Logf("package podsync pulls in %d packages of %d", n, coreBudget)
	}
}

// below tells whether a package within the module is one of the trees named.
func below(rel string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(t string) bool { return rel == t || strings.HasPrefix(rel, t+"/") })
}

// forbidden says why the package "from" may not import "to", both within the
// module; "" for a good import.
func forbidden(from, to string) string {
	steps := []string{"status", "cni", "cgroups", "volumes", "cri"}
	joins := below(from, "podsync/node", "podsync/podsynctest")
	switch {
	case below(to, "examples"):
		return "nothing imports an example"
	case below(to, "internal") && !below(from, "internal"):
		return "what embedders import does not need the repository's own tools"
	case below(from, "examples", "internal"):
		return ""
	case below(from, steps...) && below(to, steps...):
		if tree, _, _ := strings.Cut(from, "/"); !below(to, tree) {
			return "the steps know nothing of each other; what one leaves for another travels in the Sync"
		}
	case below(from, "podsync") && !joins && below(to, steps...):
		return "the core knows no step"
	case below(to, "podsync/node", "podsync/podsynctest") && !joins:
		return "only programs and tests import what puts the parts together"
	}
	return ""
}

func TestImportArrows(t *testing.T) {
	for _, p := range ours(t) {
		for _, i := range p.Imports {
			to, own := strings.CutPrefix(i, module+"/")
			if !own {
				continue
			}
			if why := forbidden(p.rel(), to); why != "" {
				t.Errorf("%s imports %s: %s", p.rel(), to, why)
			}
		}
	}
}

// What the packages may not pull in, not even through others.
func TestHeavyDependencies(t *testing.T) {
	all := graph(t)
	for _, tc := range []struct {
		tree    string
		but     []string // packages that may
		forbid  string
		because string
	}{
		{".", nil, "k8s.io/kubernetes", "it is not made to be imported"},
		{".", nil, "k8s.io/client-go/kubernetes", "the core and the CRI path do not link the typed clients"},
		{".", nil, "github.com/containerd/containerd", "runtimes are reached over CRI"},
		{"podsync", []string{"podsync/node", "podsync/podsynctest", "podsync/kubeclient", "podsync/source/apiserver", "podsync/objects/apiserver"},
			"k8s.io/client-go", "the core works without an API server"},
		{"podsync", []string{"podsync/node", "podsync/podsynctest", "podsync/metrics"}, "github.com/prometheus", "package podsync/metrics is for that"},
		{"podsync", []string{"podsync/node", "podsync/podsynctest", "podsync/tracing"}, "go.opentelemetry.io", "package podsync/tracing is for that"},
	} {
		for _, p := range ours(t) {
			if tc.tree != "." && !below(p.rel(), tc.tree) || below(p.rel(), tc.but...) {
				continue
			}
			for dep := range needs(all, p.ImportPath) {
				if dep == tc.forbid || strings.HasPrefix(dep, tc.forbid+"/") {
					t.Errorf("%s pulls in %s: %s", p.rel(), dep, tc.because)
				}
			}
		}
	}
}

// The rules of TestImportArrows do forbid what they are for.
func TestArrowsForbid(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		good     bool
	}{
		{"cri", "volumes", false}, {"status", "cri/plan", false}, {"cri", "cri/plan", true}, {"volumes/secret", "volumes/plugin", true},
		{"podsync", "cri", false}, {"podsync/admit", "status", false}, {"podsync/node", "cri", true}, {"podsync", "podsync/podspec", true},
		{"cgroups", "podsync", true}, {"cni", "podsync/node", false}, {"podsync", "examples/edgeagent", false}, {"cri", "internal/bench", false},
		{"examples/edgeagent", "podsync/node", true}, {"internal/e2e", "internal/realruntime", true},
	} {
		if why := forbidden(tc.from, tc.to); (why == "") != tc.good {
			t.Errorf("%s imports %s: %q", tc.from, tc.to, why)
		}
	}
}
