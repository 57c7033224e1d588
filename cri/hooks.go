package cri

import (
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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/utils/clock"
)

// maxHookBody is how much of the answer to an HTTP hook is read at most.
const maxHookBody = 16 << 10

// hooks runs the lifecycle hooks of containers.
type hooks struct {
	exec  internalapi.ContainerManager
	clock clock.WithTicker
	http  *http.Client
}

func newHooks(e internalapi.ContainerManager, c clock.WithTicker) *hooks {
	return &hooks{exec: e, clock: c, http: &http.Client{Transport: &http.Transport{
		// As a probe: to the pod itself, with no proxy between, and nobody could
		// have given the pod a certificate for its address.
		Proxy:               nil,
		DisableKeepAlives:   true,
		DisableCompression:  true,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
	}}}
}

// hookCall is one hook of one running container.
type hookCall struct {
	handler   *corev1.LifecycleHandler
	pod       *corev1.Pod
	container *corev1.Container
	id        string // of the instance
	ip        string // of the pod, for HTTP hooks that name no host
	// warn records a Warning event.
	warn func(reason, format string, args ...any)
}

// run runs the hook to its end or that of ctx. Its error does not show what the
// hook printed: that may be a secret.
func (h *hooks) run(ctx context.Context, c hookCall) error {
	switch {
	case c.handler.Exec != nil:
		if _, _, err := h.exec.ExecSync(ctx, c.id, c.handler.Exec.Command, 0); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("exec hook failed: %w", hideOutput(err))
		}
		return nil
	case c.handler.HTTPGet != nil:
		return h.get(ctx, c)
	case c.handler.Sleep != nil:
		t := h.clock.NewTimer(time.Duration(c.handler.Sleep.Seconds) * time.Second)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C():
			return nil
		}
	case c.handler.TCPSocket != nil:
		return errors.New("tcpSocket is not supported as a lifecycle hook")
	default:
		return errors.New("the hook names no action")
	}
}

// hideOutput keeps the exit code of a failed command and drops the rest.
func hideOutput(err error) error {
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) {
		return fmt.Errorf("exit status %d", exit.ExitStatus())
	}
	return err
}

// get does the request of an HTTP hook. Any answer will do.
func (h *hooks) get(ctx context.Context, c hookCall) error {
	u, err := hookURL(c)
	if err != nil {
		return err
	}
	err = h.request(ctx, u, c.handler.HTTPGet.HTTPHeaders)
	if err != nil && u.Scheme == "https" && errors.Is(err, http.ErrSchemeMismatch) {
		c.warn(ReasonLifecycleHTTPFallback, "https request to %s refused, used http instead", u.Host)
		u.Scheme = "http"
		err = h.request(ctx, u, c.handler.HTTPGet.HTTPHeaders)
	}
	if err != nil {
		return fmt.Errorf("http hook failed: %w", err)
	}
	return nil
}

func (h *hooks) request(ctx context.Context, u *url.URL, headers []corev1.HTTPHeader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	for _, hd := range headers {
		if strings.EqualFold(hd.Name, "host") {
			req.Host = hd.Value
			continue
		}
		req.Header.Add(hd.Name, hd.Value)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "kube-lifecycle/podsync")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "*/*")
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// What is left unread is cut off by closing.
	_, _ = io.CopyN(io.Discard, resp.Body, maxHookBody)
	return nil
}

// hookURL returns where an HTTP hook goes.
func hookURL(c hookCall) (*url.URL, error) {
	g := c.handler.HTTPGet
	host := g.Host
	if host == "" {
		host = c.ip
	}
	if host == "" {
		return nil, errors.New("http hook: the pod has no address yet and httpGet.host is empty")
	}
	port, err := hookPort(g.Port, c.container)
	if err != nil {
		return nil, err
	}
	scheme := strings.ToLower(string(g.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	if scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("http hook: httpGet.scheme %q is neither HTTP nor HTTPS", g.Scheme)
	}
	u, err := url.Parse(g.Path)
	if err != nil { // as the kubelet: a path that is no URL is taken as it is
		u = &url.URL{Path: g.Path}
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(port)),
		Path: "/" + strings.TrimPrefix(u.Path, "/"), RawQuery: u.RawQuery}, nil
}

func hookPort(p intstr.IntOrString, c *corev1.Container) (int, error) {
	n := p.IntValue()
	if p.Type == intstr.String {
		if p.StrVal == "" {
			n = 80
		}
		if c != nil {
			for _, cp := range c.Ports {
				if cp.Name == p.StrVal {
					n = int(cp.ContainerPort)
				}
			}
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("http hook: httpGet.port %q is no port number and no port of the container", p.String())
	}
	return n, nil
}
