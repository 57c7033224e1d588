package source_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for machines that do much else.
const patience = 60 * time.Second

func manifestOf(name, image string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: " + image + "\n"
}

// sets receives the sets of a source.
type sets struct {
	mu   sync.Mutex
	all  [][]*corev1.Pod
	poke chan struct{}
}

// start runs a source until the test ends.
func start(t *testing.T, src podsync.Source) *sets {
	t.Helper()
	s := &sets{poke: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx, s.set) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func (s *sets) set(pods []*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, pods)
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func (s *sets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func (s *sets) last() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	return s.all[len(s.all)-1]
}

// history is every set that came, as "name=image name=image".
func (s *sets) history() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pods := range s.all {
		list = append(list, brief(pods))
	}
	return list
}

func brief(pods []*corev1.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// becomes waits until the newest set is the one wanted.
func (s *sets) becomes(t *testing.T, want string) []*corev1.Pod {
	t.Helper()
	s.until(t, want, func() bool { return s.count() > 0 && brief(s.last()) == want })
	return s.last()
}

func (s *sets) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("waiting for %q: %q", what, s.history())
		}
		select {
		case <-s.poke:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func write(t testing.TB, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func place(t testing.TB, path, data string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".tmp-"+filepath.Base(path))
	write(t, tmp, data)
	must(t, os.Rename(tmp, path))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logBuffer is a logger whose text can be read.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func manifests(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		write(t, filepath.Join(dir, fmt.Sprintf("pod-%04d.yaml", i)), manifestOf(fmt.Sprintf("pod-%04d", i), "i:1"))
	}
}
