package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	remote "k8s.io/cri-client/pkg"

	"github.com/podsync/sdk/cri/config"
	"github.com/podsync/sdk/cri/plan"
)

const (
	// maxOutput is how much of a command's output or of an answer is read.
	maxOutput = 10 << 10
	// maxRedirects is how often an answer may send on to the same host.
	maxRedirects = 10
	// userAgent is what httpGet and grpc probes call themselves.
	userAgent = "kube-probe/1.37"
	// runtimeSlack is how much longer than the probe's timeout a runtime may take
	// to say that a command timed out.
	runtimeSlack = 2 * time.Second
)

// Request is one run of a probe.
type Request struct {
	// Pod and Container are whose probe it is; read-only.
	Pod       *corev1.Pod
	Container *corev1.Container
	// ContainerID is the instance that runs.
	ContainerID string
	// IP is the pod's address, "" when it has none yet.
	IP string
	// Type says which probe, Probe what it is.
	Type  Type
	Probe *corev1.Probe
}

// Result is what a probe found.
type Result struct {
	// Verdict is Success or Failure.
	Verdict plan.Verdict
	// Message says it to people: the output of a command, the answer's status.
	Message string
	// Warning: it counts as a success, but somebody should know the Message.
	Warning bool
}

// Prober runs single probes, within the time that the probe has. An error means
// that the probe could not be run, and says nothing of the container. Safe for
// concurrent use.
type Prober interface {
	Probe(ctx context.Context, r Request) (Result, error)
}

// Executor runs commands in containers: a part of the CRI's RuntimeService.
type Executor interface {
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Handlers is the Prober for real containers: exec through the runtime, and
// httpGet, tcpSocket and grpc to the pod's address. Make one with NewHandlers.
type Handlers struct {
	exec Executor
	http *http.Client
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

var _ Prober = (*Handlers)(nil)

// NewHandlers makes the Prober; exec is a RuntimeService.
func NewHandlers(exec Executor) *Handlers {
	// A closed connection is gone at once: probes must not use up the ports of
	// the node in TIME_WAIT.
	d := &net.Dialer{Control: lingerShortly}
	return &Handlers{exec: exec, dial: d.DialContext, http: &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, DisableCompression: true, DialContext: d.DialContext,
			// Nobody could have given the pod a certificate for its address.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: redirect,
	}}
}

// Probe implements Prober.
func (h *Handlers) Probe(ctx context.Context, r Request) (Result, error) {
	limit := timeout(r.Probe)
	handler := &r.Probe.ProbeHandler
	if handler.Exec != nil {
		return h.command(ctx, r, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch {
	case handler.HTTPGet != nil:
		return h.get(ctx, r, handler.HTTPGet)
	case handler.TCPSocket != nil:
		return h.connect(ctx, r, handler.TCPSocket)
	case handler.GRPC != nil:
		return h.grpc(ctx, r, handler.GRPC, limit)
	}
	return Result{}, fmt.Errorf("the %s probe of container %q names no action", strings.ToLower(r.Type.String()), r.Container.Name)
}

func failure(format string, args ...any) Result {
	return Result{Verdict: plan.Failure, Message: fmt.Sprintf(format, args...)}
}

// command runs an exec probe. References to the container's environment are
// expanded where their value stands in the spec, as with the kubelet.
func (h *Handlers) command(ctx context.Context, r Request, limit time.Duration) (Result, error) {
	cmd := make([]string, len(r.Probe.Exec.Command))
	for i, s := range r.Probe.Exec.Command {
		cmd[i] = config.Expand(s, func(name string) (string, bool) {
			for _, e := range r.Container.Env {
				if e.Name == name && e.ValueFrom == nil {
					return e.Value, true
				}
			}
			return "", false
		})
	}
	// The runtime ends the command; the context only guards against one that does not.
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, limit+runtimeSlack)
	defer cancel()
	stdout, stderr, err := h.exec.ExecSync(ctx, r.ContainerID, cmd, limit)
	out := clip(append(stdout, stderr...))
	var exit interface{ ExitStatus() int }
	switch {
	case err == nil:
		return Result{Verdict: plan.Success, Message: out}, nil
	case errors.As(err, &exit):
		return failure("%s", out), nil
	case outer.Err() != nil:
		return Result{}, outer.Err()
	case timedOut(err), ctx.Err() != nil:
		return failure("command timed out: %q timed out after %s", strings.Join(cmd, " "), limit), nil
	}
	return Result{}, fmt.Errorf("run the command in container %q: %w", r.Container.Name, err)
}

// timedOut tells whether the runtime ended the command for its time.
func timedOut(err error) bool {
	return errors.Is(err, remote.ErrCommandTimedOut) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

func clip(b []byte) string {
	return strings.ToValidUTF8(string(b[:min(len(b), maxOutput)]), "�")
}

// port finds a port by number or by its name in the container.
func port(p intstr.IntOrString, c *corev1.Container) (int, error) {
	n := p.IntValue()
	if p.Type == intstr.String {
		for _, cp := range c.Ports {
			if cp.Name == p.StrVal {
				n = int(cp.ContainerPort)
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %q is no number of a port and no port of container %q", p.String(), c.Name)
	}
	return n, nil
}

// host is where a probe goes: the host that it names, else the pod.
func host(named string, r Request) (string, error) {
	switch {
	case named != "":
		return named, nil
	case r.IP != "":
		return r.IP, nil
	}
	return "", errors.New("the pod has no address yet")
}

// get runs an httpGet probe: any status from 200 to 399 is a success.
func (h *Handlers) get(ctx context.Context, r Request, g *corev1.HTTPGetAction) (Result, error) {
	req, err := getRequest(ctx, r, g)
	if err != nil {
		return Result{}, err
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return failure("%v", err), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	switch {
	case err != nil:
		return failure("read the answer: %v", err), nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return Result{Verdict: plan.Success, Warning: true, Message: "Probe terminated redirects, Response body: " + clip(body)}, nil
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return Result{Verdict: plan.Success, Message: clip(bytes.TrimSpace(body))}, nil
	}
	return failure("HTTP probe failed with statuscode: %d", resp.StatusCode), nil
}

func getRequest(ctx context.Context, r Request, g *corev1.HTTPGetAction) (*http.Request, error) {
	name, err := host(g.Host, r)
	if err != nil {
		return nil, err
	}
	n, err := port(g.Port, r.Container)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(g.Path)
	if err != nil { // as the kubelet: a path that is no URL is taken as it is
		u = &url.URL{Path: g.Path}
	}
	u.Scheme = strings.ToLower(string(g.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(name, strconv.Itoa(n))
	u.Path = "/" + strings.TrimPrefix(u.Path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for _, hd := range g.HTTPHeaders {
		if strings.EqualFold(hd.Name, "host") {
			req.Host = hd.Value
			continue
		}
		req.Header.Add(hd.Name, hd.Value)
	}
	// A header that is given empty is not sent at all.
	for name, def := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		if _, given := req.Header[name]; !given {
			req.Header.Set(name, def)
		} else if req.Header.Get(name) == "" {
			req.Header[name] = nil
		}
	}
	return req, nil
}

// redirect follows within a host; where an answer sends elsewhere the probe ends
// well with a warning.
func redirect(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// connect runs a tcpSocket probe: a connection that opens is a success.
func (h *Handlers) connect(ctx context.Context, r Request, a *corev1.TCPSocketAction) (Result, error) {
	name, err := host(a.Host, r)
	if err != nil {
		return Result{}, err
	}
	n, err := port(a.Port, r.Container)
	if err != nil {
		return Result{}, err
	}
	c, err := h.dial(ctx, "tcp", net.JoinHostPort(name, strconv.Itoa(n)))
	if err != nil {
		return failure("%v", err), nil
	}
	_ = c.Close() // it did what it was for
	return Result{Verdict: plan.Success}, nil
}
