package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cri/config"
)

func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if rest, isDir := strings.CutSuffix(n, "/"); isDir {
			if err := os.Mkdir(filepath.Join(dir, rest), 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCase_RUN_17_RestartCountFromLogs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
		want  int
	}{
		{"the case", []string{"0.log", "1.log", "10.log", "10.log.20240101-000000.gz", "2.log.tmp", "x.log", "99.log/"}, 11},
		{"empty", nil, 0},
		{"only rotated", []string{"4.log.20240101-000000"}, 5},
		{"not quite", []string{"5.logs", "6log", ".log", "-7.log", "8.txt", "+9.log", "1x.log"}, 0},
		{"out of range", []string{"1.log", "2147483647.log", "99999999999999999999.log"}, 2},
		{"leading zeros", []string{"007.log"}, 8},
	} {
		dir := t.TempDir()
		touch(t, dir, tt.files...)
		if got, err := config.RestartCountFromLogs(dir); got != tt.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", tt.name, got, err, tt.want)
		}
	}
	if got, err := config.RestartCountFromLogs(filepath.Join(t.TempDir(), "none")); got != 0 || err != nil {
		t.Errorf("no directory: %d, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	touch(t, filepath.Dir(file), "f")
	if _, err := config.RestartCountFromLogs(file); err == nil {
		t.Error("a file was read as a directory")
	}
}

// The next instance's log never exists yet, however they were rotated.
func TestRestartCountNeverOverwrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		counts := rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 8).Draw(rt, "counts")
		highest := -1
		for i, n := range counts {
			suffix := rapid.SampledFrom([]string{"", ".20240101-000000", ".20240101-000000.gz", ".tmp"}).Draw(rt, fmt.Sprint("suffix", i))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.log%s", n, suffix)), nil, 0o600); err != nil {
				rt.Fatal(err)
			}
			highest = max(highest, n)
		}
		got, err := config.RestartCountFromLogs(dir)
		if err != nil || got != highest+1 {
			rt.Fatalf("got %d, %v; want %d", got, err, highest+1)
		}
	})
}

func TestCase_RUN_18_LongNames(t *testing.T) {
	pod := newPod(func(p *corev1.Pod) { p.Namespace, p.Name = strings.Repeat("n", 63), strings.Repeat("p", 253) })
	link := config.LogSymlink(pod, "app", strings.Repeat("c", 64))
	if len(link) != 255 || !strings.HasSuffix(link, ".log") || !strings.HasPrefix(link, "ppp") {
		t.Errorf("link of %d characters: %s", len(link), link)
	}
	if _, err := config.LogDirectory("", pod); err == nil || !strings.Contains(err.Error(), "255") {
		t.Errorf("directory: %v", err)
	}
	short := newPod()
	if got := config.LogSymlink(short, "app", "c1"); got != "web_shop_app-c1.log" {
		t.Error(got)
	}
	if got, err := config.LogDirectory("/logs", short); got != "/logs/shop_web_"+testUID || err != nil {
		t.Error(got, err)
	}
	if got := config.LogPath("app", 7); got != "app/7.log" {
		t.Error(got)
	}
}

func TestCase_RUN_18_AnOldLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, strings.Repeat("l", 251)+".log")
	for _, target := range []string{"/nowhere/0.log", "/nowhere/1.log", "/nowhere/1.log"} {
		if err := config.EnsureLogSymlink(target, link); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); got != target || err != nil {
			t.Errorf("link to %q, %v; want %q", got, err, target)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	if err := config.EnsureLogSymlink("/x", filepath.Join(dir, "none", "l")); err == nil {
		t.Error("no error without a directory")
	}
}

func TestCase_SEC_01_LogDirectory(t *testing.T) {
	for _, edit := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Name = "../../etc" }, func(p *corev1.Pod) { p.Namespace = "../x" }, func(p *corev1.Pod) { p.UID = "../../../tmp/x" },
		func(p *corev1.Pod) { p.Name = "" }, func(p *corev1.Pod) { p.Name = ".." }, func(p *corev1.Pod) { p.UID = "a\x00" },
	} {
		if got, err := config.LogDirectory("/logs", newPod(edit)); err == nil {
			t.Errorf("accepted as %q", got)
		}
		if got, err := config.Sandbox(config.SandboxInput{Pod: newPod(edit)}); err == nil {
			t.Errorf("accepted as %q", got.LogDirectory)
		}
	}
}

func TestReadLogTail(t *testing.T) {
	dir := t.TempDir()
	write := func(content string) string {
		p := filepath.Join(dir, "0.log")
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	line := func(tag, text string) string { return "2026-01-02T03:04:05.6Z stdout " + tag + " " + text + "\n" }
	for _, tt := range []struct {
		name, content string
		bytes         int64
		lines         int
		want          string
	}{
		{"whole", line("F", "a") + line("F", "b c"), 100, 10, "a\nb c\n"},
		{"lines", line("F", "a") + line("F", "b") + line("F", "c"), 100, 2, "b\nc\n"},
		{"bytes", line("F", "abcdef"), 4, 10, "def\n"},
		{"partial", line("P", "ab") + line("F", "cd"), 100, 10, "abcd\n"},
		{"empty line", line("F", ""), 100, 10, "\n"},
		{"foreign", "panic: x\n", 100, 10, "panic: x\n"},
		{"no end", strings.TrimSuffix(line("F", "a"), "\n"), 100, 10, "a\n"},
		{"empty", "", 100, 10, "\n"},
		{"nothing asked", line("F", "a"), 0, 10, ""},
	} {
		got, err := config.ReadLogTail(write(tt.content), tt.bytes, tt.lines)
		if tt.name == "empty" {
			tt.want = ""
		}
		if got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	big := write(strings.Repeat(line("F", strings.Repeat("x", 1000)), 2000) + line("F", "end"))
	if got, err := config.ReadLogTail(big, 2048, 80); err != nil || len(got) != 2048 || !strings.HasSuffix(got, "x\nend\n") {
		t.Errorf("big: %d bytes, %v", len(got), err)
	}
	if got, err := config.ReadLogTail(filepath.Join(dir, "none"), 9, 9); got != "" || err != nil {
		t.Errorf("missing: %q, %v", got, err)
	}
}
