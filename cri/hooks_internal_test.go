package cri

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
)

func TestHookURL(t *testing.T) {
	t.Parallel()
	c := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}
	for _, tt := range []struct {
		name, ip string
		get      corev1.HTTPGetAction
		want     string // or the error's text
	}{
		{"pod address", "10.0.0.1", corev1.HTTPGetAction{Path: "/bye", Port: intstr.FromInt32(80)}, "http://10.0.0.1:80/bye"},
		{"v6", "fd00::1", corev1.HTTPGetAction{Path: "bye?x=1", Port: intstr.FromString("web")}, "http://[fd00::1]:8080/bye?x=1"},
		{"host and https", "", corev1.HTTPGetAction{Host: "h", Scheme: "HTTPS", Port: intstr.FromString("443")}, "https://h:443/"},
		{"no port", "10.0.0.1", corev1.HTTPGetAction{Port: intstr.FromString("")}, "http://10.0.0.1:80/"},
		{"unknown port", "10.0.0.1", corev1.HTTPGetAction{Port: intstr.FromString("x")}, "is no port number"},
		{"port too high", "10.0.0.1", corev1.HTTPGetAction{Port: intstr.FromInt32(70000)}, "is no port number"},
		{"no address", "", corev1.HTTPGetAction{Port: intstr.FromInt32(80)}, "no address yet"},
		{"scheme", "10.0.0.1", corev1.HTTPGetAction{Scheme: "FILE", Port: intstr.FromInt32(80)}, "neither HTTP nor HTTPS"},
		{"path is no URL", "10.0.0.1", corev1.HTTPGetAction{Path: "/%zz", Port: intstr.FromInt32(80)}, "http://10.0.0.1:80/%25zz"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u, err := hookURL(hookCall{handler: &corev1.LifecycleHandler{HTTPGet: &tt.get}, container: c, ip: tt.ip})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if u.String() != tt.want {
				t.Errorf("got %s, want %s", u, tt.want)
			}
		})
	}
}

func TestHTTPHook(t *testing.T) {
	t.Parallel()
	var got []string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprintf("%s %s host=%s x=%s", r.Method, r.URL, r.Host, r.Header.Get("X")))
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, strings.Repeat("x", 1<<20)) // more than anybody reads
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	hooks := newHooks(nil, clock.RealClock{})
	warned := 0
	run := func(server *httptest.Server, scheme corev1.URIScheme) error {
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		return hooks.run(t.Context(), hookCall{warn: func(string, string, ...any) { warned++ }, handler: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: u.Hostname(), Port: intstr.FromString(u.Port()), Scheme: scheme, Path: "/bye?a=b",
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "me"}, {Name: "X", Value: "y"}}}}})
	}
	for i, tt := range []struct {
		server *httptest.Server
		scheme corev1.URIScheme
		warned int
	}{{plain, "HTTP", 0}, {secure, "HTTPS", 0}, {plain, "HTTPS", 1}} {
		if err := run(tt.server, tt.scheme); err != nil {
			t.Errorf("%d: any answer will do, got %v", i, err)
		}
		if warned != tt.warned {
			t.Errorf("%d: %d warnings, want %d", i, warned, tt.warned)
		}
	}
	want := "GET /bye?a=b host=me x=y"
	if d := cmp.Diff([]string{want, want, want}, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	plain.Close()
	if err := run(plain, "HTTP"); err == nil {
		t.Error("nobody answers, and the hook succeeds")
	}
}

func TestHookOfNoKind(t *testing.T) {
	t.Parallel()
	hooks := newHooks(nil, clock.RealClock{})
	for _, h := range []corev1.LifecycleHandler{{}, {TCPSocket: &corev1.TCPSocketAction{}}} {
		if err := hooks.run(t.Context(), hookCall{handler: &h}); err == nil {
			t.Errorf("%+v succeeds", h)
		}
	}
	if err := hooks.run(t.Context(), hookCall{handler: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}}); err != nil {
		t.Error(err)
	}
}

func TestBackoffsAreRestoredWithinBounds(t *testing.T) {
	t.Parallel()
	now := clock.RealClock{}.Now()
	l := newCrashLoop(10*time.Second, 300*time.Second, clock.RealClock{})
	l.restore([]Backoff{
		{UID: "a", Key: "1", Delay: 40 * time.Second, Updated: now},
		{UID: "a", Key: "long", Delay: time.Hour, Updated: now},
		{UID: "a", Key: "short", Delay: 1, Updated: now},
		{UID: "b", Key: "future", Delay: 20 * time.Second, Updated: now.Add(time.Hour)},
		{UID: "b", Key: "old", Delay: 20 * time.Second, Updated: now.Add(-time.Hour)},
		{UID: "b", Key: "", Delay: 20 * time.Second, Updated: now},
		{UID: "b", Key: "negative", Delay: -1, Updated: now},
	})
	got := map[string]time.Duration{}
	for _, b := range l.list() {
		got[string(b.UID)+"/"+b.Key] = b.Delay
		if b.Updated.After(time.Now()) {
			t.Errorf("%s was updated in the future", b.Key)
		}
	}
	want := map[string]time.Duration{"a/1": 40 * time.Second, "a/long": 300 * time.Second, "a/short": 10 * time.Second, "b/future": 20 * time.Second}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("backoffs (-want +got):\n%s", d)
	}
	l.forget("a")
	if n := len(l.list()); n != 1 {
		t.Errorf("%d backoffs after one pod was forgotten", n)
	}
}

// TestLogsOfOddUIDs: a UID never leads a removal astray.
func TestLogsOfOddUIDs(t *testing.T) {
	t.Parallel()
	r := &Runtime{}
	for _, uid := range []string{"", ".", "..", "a/b", `a\b`, "a_b", "../../etc"} {
		if err := r.removeLogs(types.UID(uid)); err == nil {
			t.Errorf("the logs of UID %q are removed", uid)
		}
	}
}
