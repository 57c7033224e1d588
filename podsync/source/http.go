package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
	"github.com/podsync/sdk/podsync/source/manifest"
)

const (
	defaultPeriod  = 20 * time.Second
	defaultTimeout = 10 * time.Second
	// firstRetry is how soon a URL is asked again that has never answered well;
	// the time doubles up to the period.
	firstRetry = time.Second
)

// HTTP takes pods from a URL that it asks again and again: a Pod, a PodList, a
// List, or several documents, in YAML or JSON. Its zero value with URL and Node
// is ready to use.
//
// Only status 200 brings a new set; 304 answers If-None-Match. Any other status,
// an empty body and a body that cannot be used keep the last good pods (in the
// kubelet an empty body stops them all). To have no pods a server sends an empty
// PodList. As long as the URL has never answered well the source has no set.
//
// An HTTP is for one Run at a time.
type HTTP struct {
	// URL is asked with GET. Required. It is part of the UIDs that are generated,
	// without user and password.
	URL string
	// Header is added to each request.
	Header http.Header
	// Period is the time between two requests. Default 20 s.
	Period time.Duration
	// Timeout is how long one request may take, body included. Default 10 s.
	Timeout time.Duration
	// Node is the node's name, lowered if need be: the pods' spec.nodeName and the
	// end of their names.
	Node string
	// SourceName is what Name returns. Default "http".
	SourceName string
	// MaxSize is the size in bytes from which on a body is refused. Default 10 MiB.
	MaxSize int64
	// Client makes the requests. Default is a client of this source's own.
	Client *http.Client
	// Logger tells of problems as they come and go. Nil discards.
	Logger *slog.Logger

	problems board
}

var _ podsync.Source = (*HTTP)(nil)

// Name returns SourceName, "http" by default.
func (h *HTTP) Name() string { return sourceName(h.SourceName, "http") }

// Problems returns what is wrong now with the URL and its content, nil if
// nothing is. Safe for concurrent use with Run.
func (h *HTTP) Problems() []Problem { return h.problems.get() }

// Run hands over the URL's pods until ctx ends, then returns nil. See
// podsync.Source. A URL that is none is an error at once.
func (h *HTTP) Run(ctx context.Context, set func(pods []*corev1.Pod)) error {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("source %s: URL must be an http or https one", h.Name()) // it may hold a password: not shown
	}
	client := h.Client
	if client == nil {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 1}
		defer t.CloseIdleConnections()
		client = &http.Client{Transport: t}
	}
	u.User = nil
	p := &poll{
		h: h, client: client, shown: u.String(), log: logger(h.Logger).With("source", h.Name()),
		book: &book{static: podspec.Static{Node: h.Node, SourceName: h.Name()}, pages: map[string]*page{}},
	}
	period := h.Period
	if period <= 0 {
		period = defaultPeriod
	}
	retry := min(firstRetry, period)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		p.once(ctx, set)
		if ctx.Err() != nil {
			return nil
		}
		if p.good {
			timer.Reset(period)
		} else {
			timer.Reset(retry)
			retry = min(2*retry, period)
		}
	}
}

// poll is one run of an HTTP.
type poll struct {
	h      *HTTP
	client *http.Client
	shown  string // the URL without user and password
	log    *slog.Logger
	book   *book
	etag   string
	sum    [sha256.Size]byte
	read   bool // sum is of a body that was read
	good   bool // there was an answer with a set in it
}

// errUnchanged says that the server has nothing new.
var errUnchanged = errors.New("not modified")

func (p *poll) once(ctx context.Context, set func(pods []*corev1.Pod)) {
	body, err := p.fetch(ctx)
	if ctx.Err() != nil {
		return
	}
	var failed error
	switch sum := sha256.Sum256(body); {
	case errors.Is(err, errUnchanged):
	case err != nil:
		failed = &DecodeError{Place: manifest.Place{File: p.shown}, Err: err}
	case !p.read || sum != p.sum:
		p.sum, p.read = sum, true
		p.book.read(p.shown, p.shown, body)
	}
	page := p.book.page(p.shown)
	p.good = p.good || p.read && (len(page.errs) == 0 || len(page.entries) > 0)
	if !p.good {
		p.show(page.problems(p.shown), failed, 0)
		return
	}
	pods, problems, news := p.book.set()
	p.show(problems, failed, len(page.entries))
	if news {
		set(pods)
	}
}

// show posts what is wrong with the content and, beside it, with the last request.
func (p *poll) show(problems []Problem, failed error, kept int) {
	if failed != nil {
		problems = append(problems, Problem{File: p.shown, Err: failed, Kept: kept})
	}
	p.h.problems.post(p.log, problems)
}

func (p *poll) fetch(ctx context.Context) ([]byte, error) {
	timeout := p.h.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.h.URL, nil)
	if err != nil {
		return nil, errors.New("the request cannot be made") // the text would show the URL
	}
	for k, v := range p.h.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if p.etag != "" {
		req.Header.Set("If-None-Match", p.etag)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL and what may be in it
		}
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && p.etag != "":
		return nil, errUnchanged
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	limit := p.h.MaxSize
	if limit <= 0 {
		limit = manifest.DefaultMaxFileSize
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the body: %w", err)
	case int64(len(body)) >= limit:
		return nil, fmt.Errorf("%w: only bodies of less than %d bytes are read", manifest.ErrTooLarge, limit)
	}
	p.etag = resp.Header.Get("ETag")
	return body, nil
}
