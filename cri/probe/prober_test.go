package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilexec "k8s.io/utils/exec"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/cri/probe"
)

// execs is an Executor made of a function.
type execs func(ctx context.Context, cmd []string, timeout time.Duration) (string, error)

func (e execs) ExecSync(ctx context.Context, _ string, cmd []string, timeout time.Duration) ([]byte, []byte, error) {
	out, err := e(ctx, cmd, timeout)
	return []byte(out), nil, err
}

func request(h corev1.ProbeHandler) probe.Request {
	c := &corev1.Container{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 1}}, Env: []corev1.EnvVar{
		{Name: "WORD", Value: "yes"}, {Name: "SECRET", ValueFrom: &corev1.EnvVarSource{}}}}
	return probe.Request{Pod: &corev1.Pod{}, Container: c, ContainerID: "c1", IP: "127.0.0.1", Type: probe.Liveness, Probe: &corev1.Probe{ProbeHandler: h, TimeoutSeconds: 1}}
}

func TestExec(t *testing.T) {
	for _, tc := range []struct {
		name string
		exec execs
		want plan.Verdict
		text string
		err  bool
	}{
		{"well", func(context.Context, []string, time.Duration) (string, error) { return "fine", nil }, plan.Success, "fine", false},
		{"exit code", func(context.Context, []string, time.Duration) (string, error) {
			return "broken", utilexec.CodeExitError{Code: 3, Err: errors.New("exit 3")}
		}, plan.Failure, "broken", false},
		{"PRB-01: the runtime says it timed out", func(_ context.Context, _ []string, d time.Duration) (string, error) {
			if d != time.Second {
				return "", fmt.Errorf("the runtime was told %s", d)
			}
			return "", context.DeadlineExceeded
		}, plan.Failure, "timed out after 1s", false},
		{"no runtime", func(context.Context, []string, time.Duration) (string, error) { return "", errors.New("no connection") }, plan.Unknown, "", true},
		{"much output", func(context.Context, []string, time.Duration) (string, error) {
			return strings.Repeat("x", 20<<10), nil
		}, plan.Success, strings.Repeat("x", 10<<10), false},
		{"environment", func(_ context.Context, cmd []string, _ time.Duration) (string, error) {
			return strings.Join(cmd, " "), nil
		}, plan.Success, "say yes $(SECRET)", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := probe.NewHandlers(tc.exec).Probe(t.Context(), request(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"say", "$(WORD)", "$(SECRET)"}}}))
			if res.Verdict != tc.want || (err != nil) != tc.err || !strings.Contains(res.Message, tc.text) || len(res.Message) > 11<<10 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

func TestHTTPGet(t *testing.T) {
	var seen *http.Request
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { seen = r; fmt.Fprint(w, "body") })
	mux.HandleFunc("/code/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		w.WriteHeader(n)
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, scheme := range []string{"HTTP", "HTTPS"} {
		server := httptest.NewServer(mux)
		if scheme == "HTTPS" {
			server.Close()
			server = httptest.NewTLSServer(mux)
		}
		defer server.Close()
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		at, err := strconv.Atoi(u.Port())
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			path    string
			want    plan.Verdict
			warning bool
			text    string
		}{
			{"/", plan.Success, false, "body"}, {"no-slash?q=1", plan.Success, false, "body"},
			{"/code/204", plan.Success, false, ""}, {"/code/399", plan.Success, true, ""},
			{"/code/400", plan.Failure, false, "statuscode: 400"}, {"/code/503", plan.Failure, false, "statuscode: 503"},
			{"/here", plan.Success, false, "body"}, {"/away", plan.Success, true, "redirects"}, {"/loop", plan.Failure, false, "10 redirects"},
			{"/slow", plan.Failure, false, "deadline"},
		} {
			t.Run(scheme+tc.path, func(t *testing.T) {
				res, err := probe.NewHandlers(nil).Probe(t.Context(), request(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: tc.path, Port: intstr.FromInt(at), Scheme: corev1.URIScheme(scheme)}}))
				if err != nil || res.Verdict != tc.want || res.Warning != tc.warning || !strings.Contains(res.Message, tc.text) {
					t.Errorf("%+v, %v", res, err)
				}
			})
		}
		r := request(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromInt(at), Scheme: corev1.URIScheme(scheme), HTTPHeaders: []corev1.HTTPHeader{
			{Name: "Host", Value: "site.example"}, {Name: "X-A", Value: "1"}, {Name: "X-A", Value: "2"}, {Name: "Accept", Value: ""}}}})
		if res, err := probe.NewHandlers(nil).Probe(t.Context(), r); err != nil || res.Verdict != plan.Success {
			t.Fatal(res, err)
		}
		if seen.Host != "site.example" || len(seen.Header["X-A"]) != 2 || seen.Header.Get("Accept") != "" || !strings.HasPrefix(seen.UserAgent(), "kube-probe/") {
			t.Errorf("the request: host %q, header %v", seen.Host, seen.Header)
		}
	}
	for name, h := range map[string]corev1.HTTPGetAction{
		"no such port name": {Port: intstr.FromString("nope")}, "port 0": {Port: intstr.FromInt(0)},
	} {
		if res, err := probe.NewHandlers(nil).Probe(t.Context(), request(corev1.ProbeHandler{HTTPGet: &h})); err == nil {
			t.Errorf("%s: %+v", name, res)
		}
	}
	r := request(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80)}})
	r.IP = ""
	if _, err := probe.NewHandlers(nil).Probe(t.Context(), r); err == nil {
		t.Error("a pod without an address can be probed")
	}
}

func TestTCPAndGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	hs := health.NewServer()
	hs.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(srv, hs)
	go srv.Serve(l) //nolint:errcheck // ends with Stop
	defer srv.Stop()
	bare := grpc.NewServer()
	bl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go bare.Serve(bl) //nolint:errcheck // ends with Stop
	defer bare.Stop()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	at := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	down, none := "down", "none"
	for _, tc := range []struct {
		name string
		h    corev1.ProbeHandler
		want plan.Verdict
		text string
	}{
		{"tcp", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(at(l))}}, plan.Success, ""},
		{"tcp, nobody listens", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(at(closed))}}, plan.Failure, "refused"},
		{"grpc", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(at(l))}}, plan.Success, "healthy"},
		{"grpc, not serving", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(at(l)), Service: &down}}, plan.Failure, "NOT_SERVING"},
		{"grpc, no such service", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(at(l)), Service: &none}}, plan.Failure, "unknown service"},
		{"grpc without health", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(at(bl))}}, plan.Failure, "does not implement"},
		{"grpc, nobody listens", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(at(closed))}}, plan.Failure, "failed to connect"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := probe.NewHandlers(nil).Probe(t.Context(), request(tc.h))
			if err != nil || res.Verdict != tc.want || !strings.Contains(res.Message, tc.text) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	if _, err := probe.NewHandlers(nil).Probe(t.Context(), request(corev1.ProbeHandler{})); err == nil {
		t.Error("a probe without an action passes")
	}
}
