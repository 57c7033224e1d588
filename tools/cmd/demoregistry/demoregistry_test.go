package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageDir has files that stand for the real programs.
func imageDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"pause": "pause program", "busybox": "busybox program", "busybox.applets": "[\nbusybox\nsh\nhttpd\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func serve(t *testing.T, rate int64, blobs ...int) *httptest.Server {
	t.Helper()
	catalog, err := fill(imageDir(t), blobs)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(guard{next: catalog, user: "demo", password: "secret", rate: rate, log: log.New(io.Discard, "", 0)})
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, method, url, user, password string) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, b
}

func TestAccess(t *testing.T) {
	s := serve(t, 0, 1)
	tests := []struct {
		name, method, path, user, password string
		want                               int
	}{
		{"ping", "GET", "/v2/", "", "", 200},
		{"public", "GET", "/v2/busybox/manifests/1", "", "", 200},
		{"public in library", "GET", "/v2/library/pause/manifests/3.10", "", "", 200},
		{"blob image", "GET", "/v2/blob-1/manifests/1", "", "", 200},
		{"absent", "GET", "/v2/nothing/manifests/1", "", "", 404},
		{"private without a password", "GET", "/v2/private/web/manifests/1", "", "", 401},
		{"private with a wrong password", "GET", "/v2/private/web/manifests/1", "demo", "guess", 401},
		{"private with a wrong user", "GET", "/v2/private/web/manifests/1", "root", "secret", 401},
		{"private with the password", "HEAD", "/v2/private/web/manifests/1", "demo", "secret", 200},
		{"private by a doubled slash", "GET", "/v2//private/web/manifests/1", "", "", 401},
		{"push", "POST", "/v2/busybox/blobs/uploads/", "demo", "secret", 405},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, header, _ := get(t, tt.method, s.URL+tt.path, tt.user, tt.password)
			if status != tt.want {
				t.Errorf("status %d, want %d", status, tt.want)
			}
			if challenge := header.Get("WWW-Authenticate"); (status == 401) != strings.HasPrefix(challenge, "Basic realm=") {
				t.Errorf("status %d with WWW-Authenticate %q", status, challenge)
			}
		})
	}
}

func TestNobodyGetsInWithoutAPassword(t *testing.T) {
	g := guard{user: "demo"}
	r := httptest.NewRequest("GET", "/v2/private/web/manifests/1", nil)
	r.SetBasicAuth("demo", "")
	if g.allowed(r) {
		t.Error("an empty password opened private/")
	}
}

func TestImages(t *testing.T) {
	s := serve(t, 0)
	_, _, b := get(t, "GET", s.URL+"/v2/private/web/manifests/1", "demo", "secret")
	manifest, err := v1.ParseManifest(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	_, _, b = get(t, "GET", s.URL+"/v2/private/web/blobs/"+manifest.Config.Digest.String(), "demo", "secret")
	var config v1.ConfigFile
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || len(config.Config.Entrypoint) != 3 || !strings.Contains(config.Config.Entrypoint[2], "httpd") {
		t.Errorf("web runs %v on %s", config.Config.Entrypoint, config.OS)
	}
	again := serve(t, 0)
	_, _, b = get(t, "GET", again.URL+"/v2/private/web/manifests/1", "demo", "secret")
	if second, err := v1.ParseManifest(bytes.NewReader(b)); err != nil || second.Config.Digest != manifest.Config.Digest {
		t.Errorf("equal content gave another image: %v, %v", second, err)
	}
}

func TestRate(t *testing.T) {
	const rate = 20000
	w := httptest.NewRecorder()
	s := &slow{ResponseWriter: w, r: httptest.NewRequest("GET", "/", nil), rate: rate}
	begin := time.Now()
	if n, err := s.Write(make([]byte, rate/4)); n != rate/4 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("a quarter of a second's bytes took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.r = s.r.WithContext(ctx)
	if n, err := s.Write(make([]byte, rate)); err == nil || n == rate {
		t.Errorf("wrote %d to a client that has gone, %v", n, err)
	}
}

func TestRunAnnouncesAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready")
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--images", imageDir(t), "--ready-file", ready, "--blobs", "1"}, io.Discard)
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(ready); err == nil {
			if status, _, _ := get(t, "GET", "http://"+strings.TrimSpace(string(b))+"/v2/", "", ""); status != 200 {
				t.Errorf("status %d", status)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no ready file")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBadCommandLines(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"size", []string{"--blobs", "1,x"}, `size "x"`},
		{"argument", []string{"--images", "/nowhere", "serve"}, `unexpected argument "serve"`},
		{"no images", []string{"--images", "/nowhere"}, "make the pause image"},
		{"address", []string{"--images", imageDir(t), "--address", "nowhere"}, "listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := run(t.Context(), tt.args, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want an error with %q, got %v", tt.want, err)
			}
		})
	}
}
