package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxTailRead bounds what ReadLogTail reads of a log, whatever it is asked for.
const maxTailRead = 256 << 10

// ReadLogTail returns the end of a container's log without the runtime's line
// headers: at most maxBytes bytes and maxLines lines; "" if it does not exist.
// It reads at most the last 256 KiB of the file and follows no link at its end.
func ReadLogTail(path string, maxBytes int64, maxLines int) (string, error) {
	data, whole, err := readTail(path, maxTailRead)
	if err != nil || len(data) == 0 || maxBytes <= 0 || maxLines <= 0 {
		return "", err
	}
	if !whole {
		// The first line is cut.
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
	var out []byte
	for _, l := range lines[max(0, len(lines)-maxLines):] {
		out = append(out, logText(l)...)
	}
	return string(out[max(0, int64(len(out))-maxBytes):]), nil
}

// logText takes the text out of a line "<time> <stream> <tags> <text>". A line
// of another form counts as text. Only a line that the container ended keeps
// its end.
func logText(line []byte) []byte {
	text := bytes.TrimSuffix(line, []byte{'\n'})
	f := bytes.SplitN(text, []byte{' '}, 4)
	if len(f) < 4 || (string(f[1]) != "stdout" && string(f[1]) != "stderr") {
		return append(text[:len(text):len(text)], '\n')
	}
	if tag, _, _ := bytes.Cut(f[2], []byte{':'}); string(tag) == "P" {
		return f[3]
	}
	return append(f[3][:len(f[3]):len(f[3])], '\n')
}

// readTail reads the last limit bytes of a regular file; whole tells whether
// that is all of it. A file that does not exist is an empty one. It neither
// follows a link at the path's end nor waits for whoever may be at the other
// end of a pipe.
func readTail(path string, limit int64) (data []byte, whole bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !st.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is no regular file", path)
	}
	start := max(0, st.Size()-limit)
	data, err = io.ReadAll(io.NewSectionReader(f, start, limit))
	return data, start == 0, err
}
