// Testsummary reads the output of `go test -json` and says what a person wants
// to know of it: progress by package, the whole output of what failed, and in
// the end each skip with its reason and a count of all. A skip that is not
// expected is a failure: a test that silently no longer runs protects nothing.
//
//	go test -json ./... | go run ./internal/testsummary -expect .ci/expected-skips
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
	// ImportPath is set instead of Package by build events.
	ImportPath string
}

type key struct{ pkg, test string }

// summary collects events.
type summary struct {
	out     io.Writer
	output  map[key][]string
	passed  int
	failed  []key
	skipped []key
	built   map[string][]string // build output by import path
	pkgFail int
}

func main() {
	expect := flag.String("expect", "", "file of expected skips: a line each, a regular expression over \"package.Test: reason\"")
	flag.Parse()
	allowed, err := readExpected(*expect)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(2)
	}
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(2)
	}
	if !s.report(allowed) {
		os.Exit(1)
	}
}

func readExpected(file string) (res []*regexp.Regexp, err error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for i, l := range strings.Split(string(b), "\n") {
		if l = strings.TrimSpace(l); l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		re, err := regexp.Compile(l)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		res = append(res, re)
	}
	return res, nil
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[key][]string{}, built: map[string][]string{}}
}

func (s *summary) read(r io.Reader) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, sc.Text()) // not of go test: a build's own words
			continue
		}
		s.add(e)
	}
	return sc.Err()
}

func (s *summary) add(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "output":
		s.output[k] = append(s.output[k], e.Output)
	case "build-output":
		s.built[e.ImportPath] = append(s.built[e.ImportPath], e.Output)
	case "pass":
		if e.Test == "" {
			fmt.Fprintf(s.out, "ok    %7.1fs  %s\n", e.Elapsed, e.Package)
		} else {
			s.passed++
		}
		delete(s.output, k)
	case "skip":
		if e.Test != "" {
			s.skipped = append(s.skipped, k)
		}
	case "fail":
		s.fail(e, k)
	}
}

func (s *summary) fail(e event, k key) {
	if e.Test != "" {
		s.failed = append(s.failed, k)
		fmt.Fprintf(s.out, "--- FAIL: %s.%s\n%s", e.Package, e.Test, strings.Join(s.output[k], ""))
		return
	}
	s.pkgFail++
	fmt.Fprintf(s.out, "FAIL  %7.1fs  %s\n", e.Elapsed, e.Package)
	for path, lines := range s.built {
		if path == e.Package || strings.HasPrefix(path, e.Package+" [") || strings.HasPrefix(path, e.Package+"_test") {
			fmt.Fprint(s.out, strings.Join(lines, ""))
		}
	}
	fmt.Fprint(s.out, strings.Join(s.output[k], ""))
}

// reason returns what a skipped test said.
func (s *summary) reason(k key) string {
	var words []string
	for _, l := range s.output[k] {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		if _, after, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				l = text
			}
		}
		words = append(words, l)
	}
	return strings.Join(words, " ")
}

// report prints the end and tells whether all is well.
func (s *summary) report(allowed []*regexp.Regexp) bool {
	unexpected := 0
	var lines []string
	for _, k := range s.skipped {
		line := k.pkg + "." + k.test + ": " + s.reason(k)
		mark := "skip (UNEXPECTED)"
		for _, re := range allowed {
			if re.MatchString(line) {
				mark = "skip (expected)"
			}
		}
		if mark == "skip (UNEXPECTED)" {
			unexpected++
		}
		lines = append(lines, mark+"  "+line)
	}
	sort.Strings(lines)
	for _, l := range lines {
		fmt.Fprintln(s.out, l)
	}
	if unexpected > 0 {
		fmt.Fprintf(s.out, "%d unexpected skips: make the test run here, or list it among the expected skips with its reason\n", unexpected)
	}
	failed := len(s.failed)
	if failed == 0 {
		failed = s.pkgFail
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, failed, len(s.skipped))
	return failed == 0 && s.pkgFail == 0 && unexpected == 0 && s.passed > 0
}
