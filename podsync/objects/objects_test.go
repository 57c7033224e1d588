package objects_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/objects"
	"github.com/podsync/sdk/podsync/source/manifest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for machines that do much else.
const patience = 60 * time.Second

func secret(name string, kv ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{}}
	for i := 0; i < len(kv); i += 2 {
		s.StringData[kv[i]] = kv[i+1]
	}
	return s
}

func secretYAML(name, value string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {k: " + value + "}\n"
}

func configMapYAML(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {k: " + value + "}\n"
}

// counter counts what a bus says.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) on(bus *podsync.Bus) {
	bus.Subscribe(func(t podsync.Topic, _ []types.UID) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t == podsync.TopicObjectsChanged {
			c.n++
		}
	})
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func TestMemory(t *testing.T) {
	bus := podsync.NewBus()
	var published counter
	published.on(bus)
	m := &objects.Memory{Bus: bus}
	_, err := m.Secret(t.Context(), "default", "s")
	var nf *objects.NotFoundError
	if !errors.Is(err, podsync.ErrNotFound) || !errors.As(err, &nf) || nf.Name != "s" || err.Error() != "Secret default/s: not found" {
		t.Errorf("want a NotFoundError, got %v", err)
	}
	if _, err := m.ConfigMap(t.Context(), "default", "s"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	in := secret("s", "k", "v")
	must(t, m.Put(in, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "shop"}, Data: map[string]string{"a": "b"}}))
	in.StringData["k"] = "changed later"
	s, err := m.Secret(t.Context(), "default", "s")
	must(t, err)
	want := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("v")}}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if c, err := m.ConfigMap(t.Context(), "shop", "s"); err != nil || c.Data["a"] != "b" {
		t.Errorf("want the config map, got %v, %v", c, err)
	}
	must(t, m.Put(secret("s", "k", "w")))
	if string(s.Data["k"]) != "v" {
		t.Error("an object that was handed out changed")
	}
	m.DeleteSecret("default", "s")
	m.DeleteConfigMap("shop", "s")
	if _, err := m.Secret(t.Context(), "default", "s"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	if n := published.get(); n != 4 {
		t.Errorf("want four publications, got %d", n)
	}
}

func TestMemory_refuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		obj  runtime.Object
		want string
	}{
		{"another type", &corev1.Pod{}, "only *v1.Secret"},
		{"no name", secret("", "k", "hunter2"), "metadata.name"},
		{"name climbs", secret("../x", "k", "hunter2"), "metadata.name"},
		{"namespace climbs", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "../x"}}, "metadata.namespace"},
		{"key climbs", secret("a", "../k", "hunter2"), `"../k"`},
		{"key in both", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "hunter2"}, BinaryData: map[string][]byte{"k": nil}}, "binaryData"},
		{"too much", secret("a", "k", strings.Repeat("hunter2", 1<<18)), "Too long"},
		{"pull secret without its key", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{"k": []byte("hunter2")}}, ".dockerconfigjson"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &objects.Memory{}
			err := m.Put(secret("good"), tt.obj)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("want an error about %s without a value, got %v", tt.want, err)
			}
			if _, err := m.Secret(t.Context(), "default", "good"); !errors.Is(err, podsync.ErrNotFound) {
				t.Errorf("want nothing put, got %v", err)
			}
		})
	}
}

// follow runs a Dir until the test ends.
func follow(t *testing.T, d *objects.Dir) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	until(t, "the first read", func() bool {
		_, err := d.Secret(t.Context(), "default", "x")
		return !errors.Is(err, objects.ErrNotRead)
	})
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

func value(t *testing.T, d *objects.Dir, name string) string {
	t.Helper()
	s, err := d.Secret(t.Context(), "default", name)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(s.Data["k"])
}

func becomes(t *testing.T, d *objects.Dir, name, want string) {
	t.Helper()
	until(t, name+"="+want, func() bool { return value(t, d, name) == want })
}

func place(t *testing.T, path, data string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".tmp")
	must(t, os.WriteFile(tmp, []byte(data), 0o600))
	must(t, os.Rename(tmp, path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "all.yaml")
	place(t, file, secretYAML("a", "v1")+"---\n"+configMapYAML("m", "x")+"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
	bus := podsync.NewBus()
	var published counter
	published.on(bus)
	d := &objects.Dir{Path: dir, Bus: bus, Settle: 20 * time.Millisecond}
	if _, err := d.Secret(t.Context(), "default", "a"); !errors.Is(err, objects.ErrNotRead) || errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("before the directory was read: want ErrNotRead, got %v", err)
	}
	if _, err := d.ConfigMap(t.Context(), "default", "a"); !errors.Is(err, objects.ErrNotRead) {
		t.Errorf("before the directory was read: want ErrNotRead, got %v", err)
	}
	follow(t, d)
	becomes(t, d, "a", "v1")
	if m, err := d.ConfigMap(t.Context(), "default", "m"); err != nil || m.Data["k"] != "x" {
		t.Errorf("want the config map, got %v, %v", m, err)
	}
	if len(d.Problems()) > 0 {
		t.Errorf("want no problem, a pod is for another to read, got %v", d.Problems())
	}
	before := published.get()
	place(t, file, secretYAML("a", "v2")+"---\n"+secretYAML("b", "v1"))
	becomes(t, d, "a", "v2")
	becomes(t, d, "b", "v1")
	if _, err := d.ConfigMap(t.Context(), "default", "m"); !errors.Is(err, podsync.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	if n := published.get(); n != before+1 {
		t.Errorf("want one publication for one change, got %d", n-before)
	}
	place(t, filepath.Join(dir, "note.yaml"), "apiVersion: v1\nkind: List\nitems: []\n")
	place(t, file, "# a comment\n"+secretYAML("a", "v2")+"---\n"+secretYAML("b", "v1"))
	place(t, filepath.Join(dir, "z.yaml"), secretYAML("z", "v1"))
	becomes(t, d, "z", "v1")
	if n := published.get(); n != before+2 {
		t.Errorf("want no publication where no object changed, got %d", n-before)
	}
	must(t, os.RemoveAll(dir))
	becomes(t, d, "a", "error: Secret default/a: not found")
}

func TestDir_keepsWhatWasGood(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "all.yaml")
	place(t, file, secretYAML("a", "v1")+"---\n"+secretYAML("b", "v1"))
	d := &objects.Dir{Path: dir, Settle: 20 * time.Millisecond, MaxFileSize: 4096}
	follow(t, d)
	for _, tt := range []struct{ name, data, problem string }{
		{"half written", secretYAML("a", "v1")[:30], "syntax error"},
		{"empty", "", "contains no document"},
		{"bad base64", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: hunter2}\n", "base64"},
		{"bad key", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {../k: hunter2}\n", "data"},
		{"another kind", "apiVersion: apps/v1\nkind: Deployment\n", "only ConfigMap, Secret"},
		{"unknown kind", "apiVersion: v1\nkind: Service\n", "only ConfigMap, Secret"},
		{"too large", strings.Repeat("#", 5000), "too large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			place(t, file, tt.data)
			until(t, "a problem", func() bool { return strings.Contains(fmt.Sprint(d.Problems()), tt.problem) })
			var de *manifest.DecodeError
			if p := d.Problems(); len(p) != 1 || !errors.As(p[0], &de) || strings.Contains(p[0].Error(), "hunter2") {
				t.Errorf("want one DecodeError without a value, got %v", p)
			}
			if a, b := value(t, d, "a"), value(t, d, "b"); a != "v1" || b != "v1" {
				t.Errorf("want both kept, got %s and %s", a, b)
			}
		})
	}
	place(t, file, secretYAML("a", "v2"))
	becomes(t, d, "a", "v2")
	if p := d.Problems(); len(p) > 0 {
		t.Errorf("want no problem left, got %v", p)
	}
}

func TestDir_duplicatesAndImmutables(t *testing.T) {
	dir := t.TempDir()
	immutable := func(v string) string { return secretYAML("a", v) + "immutable: true\n" }
	place(t, filepath.Join(dir, "a.yaml"), immutable("v1")+"---\n"+configMapYAML("m", "x")+"immutable: true\n")
	place(t, filepath.Join(dir, "b.yaml"), secretYAML("a", "other"))
	d := &objects.Dir{Path: dir, Settle: 20 * time.Millisecond}
	follow(t, d)
	becomes(t, d, "a", "v1")
	var dup *objects.DuplicateError
	if p := d.Problems(); len(p) != 1 || !errors.As(p[0], &dup) {
		t.Errorf("want one DuplicateError, got %v", p)
	}
	must(t, os.Remove(filepath.Join(dir, "b.yaml")))
	until(t, "no problem", func() bool { return len(d.Problems()) == 0 })

	place(t, filepath.Join(dir, "a.yaml"), immutable("v2")+"---\n"+configMapYAML("m", "other")+"immutable: true\n")
	until(t, "two problems", func() bool { return len(d.Problems()) == 2 })
	var imm *objects.ImmutableError
	if !errors.As(d.Problems()[0], &imm) || value(t, d, "a") != "v1" {
		t.Errorf("want the old data and an ImmutableError, got %s and %v", value(t, d, "a"), d.Problems())
	}
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	becomes(t, d, "a", "error: Secret default/a: not found")
	place(t, filepath.Join(dir, "a.yaml"), immutable("v2"))
	becomes(t, d, "a", "v2")
}

func TestDir_logsNoValue(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "open.yaml"), []byte(secretYAML("a", "hunter2")+"dat: {hunter3: hunter2}\n"), 0o644))
	place(t, filepath.Join(dir, "bad.yaml"), "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {k: 31337}\n")
	var log safeBuilder
	d := &objects.Dir{Path: dir, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	follow(t, d)
	until(t, "three lines", func() bool { return strings.Count(log.String(), "\n") == 3 })
	text := log.String()
	if strings.Contains(text, "hunter2") || strings.Contains(text, "31337") {
		t.Errorf("the log shows a value:\n%s", text)
	}
	for _, want := range []string{"can be read by everybody", `field \"dat\" is unknown`, "stringData"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in the log, got:\n%s", want, text)
		}
	}
}

type safeBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
