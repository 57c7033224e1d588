package manifest

import (
	"bytes"
	"fmt"
)

const (
	// maxDocuments bounds the documents of one file, objects in lists included.
	maxDocuments = 10_000
	// maxFaults bounds what is reported about one file.
	maxFaults = 32
)

// chunk is the text of one document.
type chunk struct {
	data []byte
	line int // of its first byte, from 1
}

// split cuts a file at its document markers. That can be done by lines, because
// YAML allows a marker at the start of a line nowhere else, not even in a block
// of text. Documents of nothing but comments and white space are left out.
func split(data []byte) []chunk {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var chunks []chunk
	begin, beginLine, line := 0, 1, 0
	add := func(end int) {
		if c := data[begin:end]; !blank(c) {
			chunks = append(chunks, trimmed(chunk{c, beginLine}))
		}
	}
	for pos := 0; pos < len(data); {
		line++
		next := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		switch l := data[pos:next]; {
		case marker(l, "---"):
			if directives(data[begin:pos]) {
				break // "%YAML 1.1" stands before the marker of its own document
			}
			add(pos)
			// What follows the marker on its line belongs to the document.
			begin, beginLine = pos+len("---"), line
		case marker(l, "..."):
			add(pos)
			begin, beginLine = next, line+1
		}
		pos = next
	}
	add(len(data))
	return chunks
}

// trimmed drops empty lines before the document, the rest of its marker's line
// among them, so that it is said to begin where a person sees it begin.
func trimmed(c chunk) chunk {
	for {
		i := bytes.IndexByte(c.data, '\n')
		if i < 0 || len(bytes.TrimSpace(c.data[:i])) > 0 {
			return c
		}
		c.data, c.line = c.data[i+1:], c.line+1
	}
}

func marker(line []byte, m string) bool {
	if !bytes.HasPrefix(line, []byte(m)) {
		return false
	}
	rest := line[len(m):]
	return len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0
}

// blank tells whether there is nothing but comments and white space.
func blank(data []byte) bool { return onlyLines(data, "#") }

// directives tells whether the text has YAML directives and nothing else.
func directives(data []byte) bool {
	return bytes.IndexByte(data, '%') >= 0 && onlyLines(data, "#%") && !onlyLines(data, "#")
}

// onlyLines tells whether each line is blank or starts with one of the bytes.
func onlyLines(data []byte, starts string) bool {
	for line := range bytes.Lines(data) {
		l := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(l) > 0 && !bytes.Contains([]byte(starts), l[:1]) {
			return false
		}
	}
	return true
}

// notUTF8 returns the name of the encoding that the text is in instead of UTF-8,
// as far as its byte order mark tells, "" if it tells nothing.
func notUTF8(data []byte) string {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return "UTF-16"
	}
	return ""
}

func syntax(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSyntax, fmt.Sprintf(format, args...))
}
