package source_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/podsync/source/manifest"
)

func newDir(path string) *source.Dir {
	return &source.Dir{Path: path, Node: "Edge-1", Settle: 30 * time.Millisecond, Rescan: time.Hour}
}

func problems(d *source.Dir) (list []string) {
	for _, p := range d.Problems() {
		list = append(list, strings.ReplaceAll(p.Err.Error(), d.Path+"/", ""))
	}
	return list
}

func TestDir_handsOverPodsThatAreReady(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), manifestOf("web", "app"))
	s := start(t, newDir(dir))
	p := s.becomes(t, "web-edge-1=app")[0]
	if p.Namespace != "default" || p.UID == "" || p.Spec.NodeName != "edge-1" || p.Annotations[podspec.AnnotationSource] != "file" ||
		p.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || p.Status.Phase != corev1.PodPending || len(p.Spec.Tolerations) != 1 {
		t.Errorf("want a static pod with its defaults, got %+v", p)
	}
	if err := podspec.Validate(p); err != nil {
		t.Error(err)
	}
}

func TestCase_CFG_01_TwoFilesMakeOnePod(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), manifestOf("web", "app:b"))
	d := newDir(dir)
	s := start(t, d)
	s.becomes(t, "web-edge-1=app:b")
	place(t, filepath.Join(dir, "c.yaml"), manifestOf("web", "app:c"))
	s.until(t, "a problem", func() bool { return len(d.Problems()) == 1 })
	want := "c.yaml: document 1 (line 1), Pod web: pod default/web-edge-1 is already made by b.yaml: document 1 (line 1), Pod web; this one waits until that is gone"
	if got := problems(d); got[0] != want {
		t.Errorf("want %q, got %q", want, got)
	}
	var dup *source.DuplicateError
	if !errors.As(d.Problems()[0].Err, &dup) {
		t.Errorf("want a DuplicateError, got %v", d.Problems())
	}
	// What an editor or a copy leaves behind is no second pod at all.
	write(t, filepath.Join(dir, "a.yaml.bak"), manifestOf("web", "app:bak"))
	place(t, filepath.Join(dir, "a.yaml"), manifestOf("web", "app:a"))
	s.becomes(t, "web-edge-1=app:a")
	if got := s.history(); len(got) != 2 {
		t.Errorf("want two sets, got %q", got)
	}
}

func TestCase_CFG_02_TheDuplicateGoes(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), manifestOf("web", "app:old"))
	write(t, filepath.Join(dir, "b.yaml"), manifestOf("web", "app:new"))
	d := newDir(dir)
	s := start(t, d)
	s.becomes(t, "web-edge-1=app:old")
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	s.becomes(t, "web-edge-1=app:new")
	if len(d.Problems()) > 0 {
		t.Errorf("want no problem left, got %v", problems(d))
	}
	for _, h := range s.history() {
		if strings.Count(h, "web") != 1 {
			t.Errorf("want exactly one pod at any time, got %q", s.history())
		}
	}
}

func TestDir_twoPodsOfOneUID(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"a", "b"} {
		write(t, filepath.Join(dir, n), strings.Replace(manifestOf(n, "i"), "metadata:", "metadata:\n  uid: same", 1))
	}
	d := newDir(dir)
	s := start(t, d)
	s.becomes(t, "a-edge-1=i")
	if got := problems(d); len(got) != 1 || !strings.Contains(got[0], "pod with UID same is already made") {
		t.Errorf("want one problem about the UID, got %q", got)
	}
}

func TestCase_CFG_03_HalfWrittenManifest(t *testing.T) {
	full := manifestOf("web", "app:new")
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, path string)
	}{
		{"in place", func(t *testing.T, path string) {
			write(t, path, full[:40])
			time.Sleep(200 * time.Millisecond)
			write(t, path, full)
		}},
		{"truncated first", func(t *testing.T, path string) {
			must(t, os.Truncate(path, 0))
			time.Sleep(200 * time.Millisecond)
			write(t, path, full)
		}},
		{"renamed into place", func(t *testing.T, path string) { place(t, path, full) }},
		{"by an editor", func(t *testing.T, path string) {
			probe := filepath.Join(filepath.Dir(path), "4913")
			write(t, probe, "")
			must(t, os.Remove(probe))
			must(t, os.Rename(path, path+"~"))
			write(t, path, full)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "web.yaml")
			write(t, path, manifestOf("web", "app:old"))
			d := newDir(filepath.Dir(path))
			d.Settle = time.Second
			s := start(t, d)
			s.becomes(t, "web-edge-1=app:old")
			tt.change(t, path)
			s.becomes(t, "web-edge-1=app:new")
			want := []string{"web-edge-1=app:old", "web-edge-1=app:new"}
			if got := s.history(); !slices.Equal(got, want) {
				t.Errorf("want %q, got %q", want, got)
			}
			if got := problems(d); len(got) > 0 {
				t.Errorf("want no problem left, got %q", got)
			}
		})
	}
}

func TestDir_aFaultKeepsWhatWasGood(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "all.yaml")
	three := func(a, b, c string) string { return a + "---\n" + b + "---\n" + c }
	a, b, c := manifestOf("a", "i:1"), manifestOf("b", "i:1"), manifestOf("c", "i:1")
	write(t, path, three(a, b, c))
	var log logBuffer
	d := newDir(dir)
	d.Logger = log.logger()
	s := start(t, d)
	s.becomes(t, "a-edge-1=i:1 b-edge-1=i:1 c-edge-1=i:1")

	// The second is broken and the first is new: b stays, a changes.
	place(t, path, three(manifestOf("a", "i:2"), "kind: [\n", c))
	s.becomes(t, "a-edge-1=i:2 b-edge-1=i:1 c-edge-1=i:1")
	if p := d.Problems(); len(p) != 1 || p[0].Kept != 1 || !errors.Is(p[0].Err, manifest.ErrSyntax) {
		t.Errorf("want one syntax error with one pod kept, got %+v", p)
	}
	// Well written but not valid.
	place(t, path, three(a, strings.Replace(b, "name: c", "name: C_", 1), c))
	s.becomes(t, "a-edge-1=i:1 b-edge-1=i:1 c-edge-1=i:1")
	s.until(t, "a problem", func() bool {
		var inv *podspec.InvalidError
		return len(d.Problems()) == 1 && errors.As(d.Problems()[0].Err, &inv)
	})
	if got := problems(d)[0]; !strings.Contains(got, "all.yaml: document 2 (line 10), Pod b") || !strings.Contains(got, "spec.containers[0].name") {
		t.Errorf("want file, document and field, got %s", got)
	}
	// Repaired, and b was taken out.
	place(t, path, a+"---\n"+c)
	s.becomes(t, "a-edge-1=i:1 c-edge-1=i:1")
	if got := problems(d); len(got) > 0 {
		t.Errorf("want no problem left, got %q", got)
	}
	must(t, os.Remove(path))
	s.becomes(t, "")
	for _, want := range []string{"manifest cannot be used", "podsKept=1", "manifest problem is over"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("want %q in the log, got:\n%s", want, log.String())
		}
	}
}

func TestDir_oneBadFileDoesNotHoldUpTheOthers(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "{")
	write(t, filepath.Join(dir, "good.yaml"), manifestOf("a", "i")+"  hostNetwerk: true\n")
	write(t, filepath.Join(dir, "claims.yaml"), manifestOf("b", "i")+"  resourceClaims: [{name: x, resourceClaimName: x}]\n") // SEC-06
	d := newDir(dir)
	s := start(t, d)
	s.becomes(t, "a-edge-1=i")
	want := []string{
		"bad.yaml: document 1 (line 1): syntax error: unexpected EOF",
		"claims.yaml: document 1 (line 1), Pod b: pod /b() is invalid: spec.resourceClaims: Forbidden: a static pod cannot use what a control plane has to make for it",
		`good.yaml: document 1 (line 1), Pod a: field "spec.hostNetwerk" is unknown and was ignored`,
	}
	if got := problems(d); !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	if !d.Problems()[2].Warning || d.Problems()[0].Warning {
		t.Errorf("want only the unknown field to be a warning, got %+v", d.Problems())
	}
}

func TestCase_CFG_07_ManifestSize(t *testing.T) {
	padded := func(n int) string {
		m := manifestOf("web", "app:big")
		return m + "#" + strings.Repeat("x", n-len(m)-1)
	}
	const limit = 10 << 20
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	place(t, path, padded(limit*99/100))
	d := newDir(dir)
	s := start(t, d)
	s.becomes(t, "web-edge-1=app:big")
	for _, n := range []int{limit, limit * 11 / 10} {
		place(t, path, padded(n))
		s.until(t, "a problem", func() bool {
			return len(d.Problems()) == 1 && errors.Is(d.Problems()[0].Err, manifest.ErrTooLarge) && strings.Contains(problems(d)[0], fmt.Sprint(n))
		})
		if got := brief(s.last()); got != "web-edge-1=app:big" {
			t.Errorf("want the pod kept, got %q", got)
		}
	}
	place(t, path, manifestOf("web", "app:small"))
	s.becomes(t, "web-edge-1=app:small")
}

func TestCase_CFG_07_ThousandManifests(t *testing.T) {
	dir := t.TempDir()
	manifests(t, dir, 1000)
	begin := time.Now()
	s := start(t, newDir(dir))
	s.until(t, "1000 pods", func() bool { return len(s.last()) == 1000 })
	t.Logf("1000 manifests in %v", time.Since(begin))
	if s.count() != 1 {
		t.Errorf("want one set, got %d", s.count())
	}
	first := s.last()
	place(t, filepath.Join(dir, "pod-0500.yaml"), manifestOf("pod-0500", "i:2"))
	s.until(t, "the change", func() bool { return s.count() == 2 })
	same := 0
	for i, p := range s.last() {
		if p == first[i] {
			same++
		}
	}
	if same != 999 {
		t.Errorf("want 999 pods to be the same objects, got %d", same)
	}
}

func TestCase_CFG_08_UIDsOfFilePods(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.yaml")
	write(t, path, manifestOf("web", "app"))
	uid := func(p *corev1.Pod) string { return string(p.UID) }
	s := start(t, newDir(dir))
	before := uid(s.becomes(t, "web-edge-1=app")[0])
	place(t, path, "# a comment\n"+strings.ReplaceAll(manifestOf("web", "app"), "    image", "    image "))
	place(t, filepath.Join(dir, "other.yaml"), manifestOf("other", "x"))
	s.becomes(t, "other-edge-1=x web-edge-1=app")
	for _, p := range s.last() {
		if p.Name == "web-edge-1" && uid(p) != before {
			t.Errorf("want the UID to stay through comments and white space, got %s and %s", before, uid(p))
		}
	}
	again := start(t, newDir(dir)) // a restart of the agent
	again.becomes(t, "other-edge-1=x web-edge-1=app")
	for _, p := range again.last() {
		if p.Name == "web-edge-1" && uid(p) != before {
			t.Errorf("want the UID to stay through a restart, got %s and %s", before, uid(p))
		}
	}
	elsewhere := newDir(dir)
	elsewhere.Node = "edge-2"
	for _, p := range start(t, elsewhere).becomes(t, "other-edge-2=x web-edge-2=app") {
		if uid(p) == before {
			t.Errorf("want another UID on another node, got %s", before)
		}
	}
	must(t, os.Rename(path, filepath.Join(dir, "moved.yaml")))
	s.until(t, "another UID", func() bool {
		return len(s.last()) == 2 && !slices.ContainsFunc(s.last(), func(p *corev1.Pod) bool { return uid(p) == before })
	})
}

func TestCase_CFG_09_DirectoryMissingOrRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc", "pods")
	s := start(t, newDir(dir))
	s.becomes(t, "") // seen, and empty
	must(t, os.MkdirAll(dir, 0o755))
	place(t, filepath.Join(dir, "web.yaml"), manifestOf("web", "app"))
	s.becomes(t, "web-edge-1=app")
	must(t, os.RemoveAll(dir))
	s.becomes(t, "")
	must(t, os.MkdirAll(dir, 0o755))
	place(t, filepath.Join(dir, "web.yaml"), manifestOf("web", "app"))
	s.becomes(t, "web-edge-1=app")
}

func TestCase_CFG_10_HostNetworkPorts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), manifestOf("a", "i")+"    ports: [{containerPort: 8080}]\n  hostNetwork: true\n")
	write(t, filepath.Join(dir, "b.yaml"), manifestOf("b", "i")+"    ports: [{containerPort: 80, hostPort: 81}]\n  hostNetwork: true\n")
	d := newDir(dir)
	p := start(t, d).becomes(t, "a-edge-1=i")[0]
	if got := p.Spec.Containers[0].Ports[0].HostPort; got != 8080 {
		t.Errorf("host port: want 8080, got %d", got)
	}
	if got := problems(d); len(got) != 1 || !strings.Contains(got[0], "spec.containers[0].ports[0].hostPort") {
		t.Errorf("want one problem about the host port, got %q", got)
	}
}

func TestCase_SEC_01_HostileNamesMakeNoPod(t *testing.T) {
	dir := t.TempDir()
	for i, change := range [][2]string{
		{"name: web", "name: ../../etc"}, {"name: web", "name: web\n  namespace: ../x"}, {"name: c\n", "name: ../c\n"}, {"name: web", "name: Web_App"},
		{"name: web", "name: web\n  uid: ../../../tmp/x"}, {"name: web", "name: web\n  uid: a_b"}, {"name: web", "name: web\n  uid: a/b"},
	} {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), strings.Replace(manifestOf("web", "app"), change[0], change[1], 1))
	}
	for i, volumes := range []string{
		"[{name: ../v}]", "[{name: v, hostPath: {path: /var/log/../../etc}}]", "[{name: v, configMap: {name: m, items: [{key: k, path: ../x}]}}]",
		"[{name: v, configMap: {name: m, items: [{key: k, path: ..x}]}}]",
	} {
		write(t, filepath.Join(dir, fmt.Sprintf("v%d.yaml", i)), manifestOf("web", "app")+"  volumes: "+volumes+"\n")
	}
	write(t, filepath.Join(dir, "subpath.yaml"), manifestOf("web", "app")+"    volumeMounts: [{name: v, mountPath: /v, subPath: ../../etc}]\n  volumes: [{name: v}]\n")
	d := newDir(dir)
	start(t, d).becomes(t, "")
	if got := len(d.Problems()); got != 12 {
		t.Errorf("want twelve problems, got %d: %q", got, problems(d))
	}
}

func TestDir_name(t *testing.T) {
	var src podsync.Source = &source.Dir{}
	if src.Name() != "file" {
		t.Errorf("want file, got %s", src.Name())
	}
	if got := (&source.Dir{SourceName: "boot"}).Name(); got != "boot" {
		t.Errorf("want boot, got %s", got)
	}
}

func BenchmarkDir(b *testing.B) {
	b.Run("load 1000", func(b *testing.B) {
		dir := b.TempDir()
		manifests(b, dir, 1000)
		time.Sleep(100 * time.Millisecond)
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			if err := (&source.Dir{Path: dir, Node: "n"}).Run(ctx, func(pods []*corev1.Pod) { cancel() }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rename to set", func(b *testing.B) {
		dir := b.TempDir()
		manifests(b, dir, 50)
		sets := make(chan struct{})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() {
			done <- (&source.Dir{Path: dir, Node: "n"}).Run(ctx, func([]*corev1.Pod) { sets <- struct{}{} })
		}()
		<-sets
		i := 0
		for b.Loop() {
			i++
			place(b, filepath.Join(dir, "web.yaml"), manifestOf("web", fmt.Sprintf("i:%d", i)))
			<-sets
		}
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
}
