package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source"
	"github.com/podsync/sdk/podsync/source/manifest"
)

// server answers requests without a network, so that the clock can be a fake.
type server struct {
	mu       sync.Mutex
	status   int
	body     string
	etag     string
	err      error
	delay    time.Duration
	requests []*http.Request
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	status, body, etag, err, delay := s.status, s.body, s.etag, s.err, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	if etag != "" && r.Header.Get("If-None-Match") == etag {
		status, body = http.StatusNotModified, ""
	}
	h := http.Header{}
	if etag != "" {
		h.Set("ETag", etag)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (s *server) serve(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

func (s *server) header(request int, key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[request].Header.Get(key)
}

// poll runs an HTTP source in the bubble of a synctest until the test ends.
func poll(t *testing.T, s *server, h *source.HTTP) *sets {
	t.Helper()
	h.URL, h.Node, h.Client = "https://user:hunter2@example.com/pods?v=1", "edge-1", &http.Client{Transport: s}
	got := &sets{poke: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, got.set) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return got
}

// tick lets a period pass.
func tick() {
	time.Sleep(20*time.Second + time.Millisecond)
	synctest.Wait()
}

func TestHTTP_keepsTheLastGoodSet(t *testing.T) {
	good := manifestOf("web", "app:1")
	for _, tt := range []struct {
		name   string
		status int
		body   string
		err    error
		fault  error
	}{
		{name: "status 500", status: 500, body: manifestOf("web", "app:2")},
		{name: "status 204", status: 204},
		{name: "status 404", status: 404, body: "not here"},
		{name: "empty body", status: 200, fault: manifest.ErrEmpty},
		{name: "HTML", status: 200, body: "<html>login</html>"},
		{name: "half a body", status: 200, body: good[:40]},
		{name: "an invalid pod", status: 200, body: strings.Replace(good, "name: c", "name: ../c", 1)},
		{name: "too large", status: 200, body: strings.Repeat("x", 10<<20), fault: manifest.ErrTooLarge},
		{name: "no connection", err: errors.New("connection refused")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{status: 200, body: good}
				h := &source.HTTP{}
				got := poll(t, s, h)
				s.mu.Lock()
				s.status, s.body, s.err = tt.status, tt.body, tt.err
				s.mu.Unlock()
				tick()
				if p := h.Problems(); len(p) != 1 || p[0].Kept != 1 {
					t.Errorf("want one problem with one pod kept, got %+v", p)
				} else if tt.fault != nil && !errors.Is(p[0].Err, tt.fault) {
					t.Errorf("want %v, got %v", tt.fault, p[0].Err)
				}
				s.mu.Lock()
				s.status, s.body, s.err = 200, good, nil
				s.mu.Unlock()
				tick()
				if p := h.Problems(); len(p) > 0 {
					t.Errorf("want no problem left, got %v", p)
				}
				if got, want := got.history(), []string{"web-edge-1=app:1"}; !slices.Equal(got, want) {
					t.Errorf("sets: want %q, got %q", want, got)
				}
			})
		})
	}
}

func TestHTTP_changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: manifestOf("web", "app:1")}
		h := &source.HTTP{Header: http.Header{"x-token": {"abc"}}}
		got := poll(t, s, h)
		p := got.last()[0]
		if p.Annotations[podspec.AnnotationSource] != "http" || len(p.Spec.Tolerations) != 0 {
			t.Errorf("want a pod from a URL, got %+v", p)
		}
		if v := s.header(0, "X-Token"); v != "abc" {
			t.Errorf("want the header sent, got %q", v)
		}
		tick() // the same body
		s.serve(200, "# a comment\n"+manifestOf("web", "app:1"))
		tick()
		s.serve(200, manifestOf("web", "app:2")+"---\n"+manifestOf("db", "db:1"))
		tick()
		s.serve(200, `{"apiVersion":"v1","kind":"PodList","items":[]}`)
		tick()
		want := []string{"web-edge-1=app:1", "db-edge-1=db:1 web-edge-1=app:2", ""}
		if got := got.history(); !slices.Equal(got, want) {
			t.Errorf("sets: want %q, got %q", want, got)
		}
		if n := s.count(); n != 5 {
			t.Errorf("want a request a period, got %d", n)
		}
	})
}

func TestHTTP_etag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: manifestOf("web", "app:1") + "---\n[]\n", etag: `"1"`}
		h := &source.HTTP{}
		got := poll(t, s, h)
		before := fmt.Sprint(h.Problems())
		tick()
		if v := s.header(1, "If-None-Match"); v != `"1"` {
			t.Errorf("want If-None-Match, got %q", v)
		}
		if after := fmt.Sprint(h.Problems()); after != before || len(h.Problems()) != 1 {
			t.Errorf("want what is wrong with the body still said, got %s and %s", before, after)
		}
		s.serve(503, "")
		s.mu.Lock()
		s.etag = ""
		s.mu.Unlock()
		tick()
		if n := len(h.Problems()); n != 2 {
			t.Errorf("want the failure beside it, got %v", h.Problems())
		}
		s.mu.Lock()
		s.status, s.etag = 200, `"1"`
		s.mu.Unlock()
		tick()
		if after := fmt.Sprint(h.Problems()); after != before {
			t.Errorf("want the failure over, got %s", after)
		}
		if got := got.history(); !slices.Equal(got, []string{"web-edge-1=app:1"}) {
			t.Errorf("want one set, got %q", got)
		}
	})
}

func TestHTTP_startsWithAServerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		s := &server{err: errors.New("connection refused")}
		h := &source.HTTP{Logger: log.logger()}
		got := poll(t, s, h)
		time.Sleep(40 * time.Second) // asked at 0, 1, 3, 7, 15, 31 s
		synctest.Wait()
		if n := s.count(); n != 6 {
			t.Errorf("want 6 requests in 40 s, got %d", n)
		}
		if got.count() != 0 {
			t.Errorf("want no set while nothing is known, got %q", got.history())
		}
		s.mu.Lock()
		s.err, s.status, s.body = nil, 200, manifestOf("web", "app:1")
		s.mu.Unlock()
		tick()
		if got := got.history(); !slices.Equal(got, []string{"web-edge-1=app:1"}) {
			t.Errorf("want one set, got %q", got)
		}
		if strings.Count(log.String(), "connection refused") != 2 { // it came, it went
			t.Errorf("want a lasting problem logged once, got:\n%s", log.String())
		}
		if strings.Contains(log.String()+fmt.Sprint(h.Problems()), "hunter2") {
			t.Errorf("the log shows the password:\n%s", log.String())
		}
	})
}

func TestHTTP_timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 200, body: manifestOf("web", "app:1"), delay: time.Hour}
		h := &source.HTTP{}
		poll(t, s, h)
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if p := h.Problems(); len(p) != 1 || !errors.Is(p[0].Err, context.DeadlineExceeded) {
			t.Errorf("want a timeout after 10 s, got %v", p)
		}
	})
}

func TestHTTP_url(t *testing.T) {
	for _, u := range []string{"", "ftp://x/", "://", "http://", "http://user:hunter2@%zz/"} {
		err := (&source.HTTP{URL: u}).Run(t.Context(), func([]*corev1.Pod) {})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("URL %q: want an error without a password, got %v", u, err)
		}
	}
}

func TestHTTP_overTheNetwork(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "u" || pass != "p" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.ServeContent(w, r, "pods.yaml", time.Unix(1, 0), bytes.NewReader([]byte(manifestOf("web", "app:1"))))
	}))
	t.Cleanup(srv.Close)
	s := start(t, &source.HTTP{URL: strings.Replace(srv.URL, "http://", "http://u:p@", 1), Node: "edge-1", Period: 10 * time.Millisecond})
	s.becomes(t, "web-edge-1=app:1")
}
