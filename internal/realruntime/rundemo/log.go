package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// agentLog shows the agent's log, line by line, indented and shortened for a terminal. One goroutine writes.
type agentLog struct {
	out  io.Writer
	rest []byte
}

// Write never fails, so that a closed terminal does not end the agent.
func (l *agentLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		_, _ = fmt.Fprintf(l.out, "    %s\n", shorten(string(line)))
		l.rest = rest
	}
}

// shorten makes a line of log/slog's text format readable: the time of day alone, no level unless it is a
// warning or worse, no UID where the pod has its name, and a stage's outcome in columns. Other lines stay.
func shorten(line string) string {
	pairs := logPairs(line)
	if len(pairs) < 3 || pairs[0][0] != "time" || pairs[1][0] != "level" || pairs[2][0] != "msg" {
		return line
	}
	value := map[string]string{}
	for _, p := range pairs {
		value[p[0]] = p[1]
	}
	clock := value["time"]
	if _, after, found := strings.Cut(clock, "T"); found {
		clock = strings.TrimSuffix(after, "Z")
	}
	if value["msg"] == "stage" && value["level"] == "DEBUG" {
		outcome := value["kind"]
		if value["reason"] != "" {
			outcome += " (" + value["reason"] + ")"
		}
		return fmt.Sprintf("%s %-11s %-16s %-28s %9s  %s%s", clock, value["phase"], value["stage"], outcome, rounded(value["took"]), value["pod"],
			others(pairs, "phase", "stage", "kind", "reason", "took", "pod", "uid"))
	}
	drop := []string{}
	if value["pod"] != "" {
		drop = append(drop, "uid")
	}
	text := strings.Trim(value["msg"], `"`)
	if level := value["level"]; level != "DEBUG" && level != "INFO" {
		text = level + " " + text
	}
	return clock + " " + text + others(pairs, drop...)
}

// rounded leaves a duration three digits or so.
func rounded(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
	}
	unit := time.Nanosecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// others are the attributes that have not been shown.
func others(pairs [][2]string, shown ...string) string {
	var b strings.Builder
	for _, p := range pairs[3:] {
		known := false
		for _, s := range shown {
			known = known || p[0] == s
		}
		if !known && p[1] != "" && p[1] != `""` {
			b.WriteString(" " + p[0] + "=" + p[1])
		}
	}
	return b.String()
}

// logPairs splits a line into key=value pairs; quoted values keep their quotes. What does not look like a pair
// ends it.
func logPairs(line string) [][2]string {
	var pairs [][2]string
	for line != "" {
		key, rest, found := strings.Cut(line, "=")
		if !found || strings.ContainsFunc(key, unicode.IsSpace) {
			return nil
		}
		end := valueEnd(rest)
		pairs = append(pairs, [2]string{key, rest[:end]})
		line = strings.TrimPrefix(rest[end:], " ")
	}
	return pairs
}

// valueEnd is where a value ends: at a blank outside of quotes.
func valueEnd(s string) int {
	quoted := false
	for n := 0; n < len(s); n++ {
		switch {
		case s[n] == '\\' && quoted:
			n++
		case s[n] == '"':
			quoted = !quoted
		case s[n] == ' ' && !quoted:
			return n
		}
	}
	return len(s)
}
