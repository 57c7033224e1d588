package main

import (
	"regexp"
	"strings"
	"testing"
)

const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1}
`

const failure = `{"Action":"output","Package":"q","Test":"TestC","Output":"    c_test.go:1: boom\n"}
{"Action":"fail","Package":"q","Test":"TestC"}
{"Action":"fail","Package":"q","Elapsed":1}
`

func TestSummary(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		allowed  []string
		ok       bool
		want     []string
	}{
		{"expected skip", events, []string{`TestB: needs root$`}, true, []string{"skip (expected)  p.TestB: needs root", "1 passed, 0 failed, 1 skipped"}},
		{"unexpected skip", events, nil, false, []string{"UNEXPECTED", "1 unexpected skips"}},
		{"failure shows its output", events + failure, []string{"needs root"}, false, []string{"--- FAIL: q.TestC", "boom", "1 passed, 1 failed"}},
		{"package that does not build", `{"ImportPath":"q","Action":"build-output","Output":"x.go:1: no\n"}
{"Action":"fail","Package":"q"}`, nil, false, []string{"x.go:1: no", "0 passed, 1 failed"}},
		{"nothing ran", "", nil, false, []string{"0 passed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(tc.in)); err != nil {
				t.Fatal(err)
			}
			var allowed []*regexp.Regexp
			for _, a := range tc.allowed {
				allowed = append(allowed, regexp.MustCompile(a))
			}
			if got := s.report(allowed); got != tc.ok {
				t.Errorf("report = %v, want %v", got, tc.ok)
			}
			for _, w := range tc.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("output lacks %q:\n%s", w, &out)
				}
			}
		})
	}
}
