package main

import (
	"bytes"
	"io"
	"testing"
)

func TestShorten(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{
			"stage", `time=2026-12-01T04:30:32.127Z level=DEBUG msg=stage pod=default/demo uid=26a8 phase=admit stage=sysctls kind=Skip reason=NoSysctls took=23.761µs`,
			`04:30:32.127 admit       sysctls          Skip (NoSysctls)                23.8µs  default/demo`,
		},
		{
			"stage with an error", `time=2026-12-01T04:30:32.127Z level=DEBUG msg=stage pod=default/demo uid=26a8 phase=sync stage=runtime kind=Retry err="no \"image\" there" took=1s`,
			`04:30:32.127 sync        runtime          Retry                               1s  default/demo err="no \"image\" there"`,
		},
		{
			"event", `time=2026-12-01T04:30:32.173Z level=INFO msg=event pod=default/demo uid=26a8 reason=Pulling message="Pulling image"`,
			`04:30:32.173 event pod=default/demo reason=Pulling message="Pulling image"`,
		},
		{"warning", `time=2026-12-01T04:30:32Z level=WARN msg="no DNS" uid=26a8 network=""`, `04:30:32 WARN no DNS uid=26a8`},
		{"not a log line", "panic: it = bad", "panic: it = bad"},
		{"half a line", `time=2026-12-01T04:30:32Z level`, `time=2026-12-01T04:30:32Z level`},
		{"open quote", `time=x level=INFO msg="a b`, `x a b`},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shorten(tt.line); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAgentLogWritesWholeLines(t *testing.T) {
	var out bytes.Buffer
	l := &agentLog{out: &out}
	for _, part := range []string{"one\ntw", "o\n", "three"} {
		if _, err := io.WriteString(l, part); err != nil {
			t.Fatal(err)
		}
	}
	if want := "    one\n    two\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

func FuzzShorten(f *testing.F) {
	f.Add(`time=1 level=DEBUG msg=stage a="b`)
	f.Fuzz(func(_ *testing.T, line string) { shorten(line) }) // must not panic
}
