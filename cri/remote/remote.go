package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	internalapi "k8s.io/cri-api/pkg/apis"
	criclient "k8s.io/cri-client/pkg"
)

// Endpoints where a runtime is looked for when none is named, in this order.
const (
	EndpointContainerd = "unix:///run/containerd/containerd.sock"
	EndpointCRIO       = "unix:///run/crio/crio.sock"
	EndpointCRIDockerd = "unix:///run/cri-dockerd.sock"
)

// DefaultTimeout bounds calls to the runtime.
const DefaultTimeout = 2 * time.Minute

// Options say how to connect. The zero value finds the runtime by itself.
type Options struct {
	// Endpoint is the runtime's socket as a URL, "unix:///run/…"; "" takes the
	// first of Candidates that is there.
	Endpoint string
	// ImageEndpoint is the image service's; "" is Endpoint.
	ImageEndpoint string
	// Candidates are where to look when Endpoint is ""; nil is containerd's,
	// CRI-O's and cri-dockerd's usual sockets.
	Candidates []string
	// Timeout bounds each call, but for image pulls and event streams, with what
	// the call itself may take added; 0 is DefaultTimeout.
	Timeout time.Duration
	// Wait is for how long to try again while nothing answers; 0 tries once.
	Wait time.Duration
	// TracerProvider makes a span of each call; nil makes none.
	TracerProvider trace.TracerProvider
	// Logger takes the client's own log, at debug level; nil discards it. What
	// fails is returned in any case.
	Logger *slog.Logger
}

// Remote is a connection to a runtime. It connects again by itself when the
// runtime restarts. Safe for concurrent use.
type Remote struct {
	endpoint string
	runtime  internalapi.RuntimeService
	images   internalapi.ImageManagerService
	version  Version
}

// Version is what a runtime says of itself.
type Version struct {
	// Runtime and RuntimeVersion are the program's: "containerd", "v2.4.2".
	Runtime, RuntimeVersion string
	// API is the version of the interface: "v1".
	API string
}

// NoEndpointError says that no runtime was found.
type NoEndpointError struct {
	// Candidates are the endpoints that were looked at.
	Candidates []string
}

// Error names the endpoints.
func (e *NoEndpointError) Error() string {
	return "no container runtime found at " + strings.Join(e.Candidates, ", ") + "; start one or name its endpoint"
}

// Dial connects to the runtime and checks that it speaks CRI v1. It fails with
// a *NoEndpointError when no socket is there, and with a *VersionError when
// what answers speaks another version.
func Dial(ctx context.Context, o Options) (*Remote, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Candidates == nil {
		o.Candidates = []string{EndpointContainerd, EndpointCRIO, EndpointCRIDockerd}
	}
	for began := time.Now(); ; {
		r, err := dial(ctx, o)
		var ve *VersionError
		if err == nil || errors.As(err, &ve) || time.Since(began) >= o.Wait {
			return r, err
		}
		t := time.NewTimer(min(time.Second, o.Wait))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, errors.Join(ctx.Err(), err)
		case <-t.C:
		}
	}
}

func dial(ctx context.Context, o Options) (*Remote, error) {
	endpoint, err := o.endpoint()
	if err != nil {
		return nil, err
	}
	imageEndpoint := o.ImageEndpoint
	if imageEndpoint == "" {
		imageEndpoint = endpoint
	}
	v, err := probe(ctx, endpoint, imageEndpoint, o.Timeout)
	if err != nil {
		return nil, err
	}
	q := newQuiet(o.Logger)
	rt, err := criclient.NewRemoteRuntimeServiceBuilder().WithEndpoint(endpoint).
		WithConnectionTimeout(o.Timeout).WithTracerProvider(o.TracerProvider). // nil installs no handler
		Build(q.ctx(ctx))
	if err != nil {
		return nil, fmt.Errorf("connect to the container runtime at %s: %w", endpoint, err)
	}
	im, err := criclient.NewRemoteImageServiceBuilder().WithEndpoint(imageEndpoint).
		WithConnectionTimeout(o.Timeout).WithTracerProvider(o.TracerProvider).Build(q.ctx(ctx))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the image service at %s: %w", imageEndpoint, err), rt.Close(q.ctx(ctx)))
	}
	return &Remote{endpoint: endpoint, version: v, runtime: &quietRuntime{rt, q}, images: &quietImages{im, q}}, nil
}

// endpoint returns where to connect.
func (o Options) endpoint() (string, error) {
	if o.Endpoint != "" {
		return o.Endpoint, nil
	}
	for _, c := range o.Candidates {
		fi, err := os.Stat(strings.TrimPrefix(c, "unix://"))
		if err == nil && fi.Mode()&os.ModeSocket != 0 {
			return c, nil
		}
	}
	return "", &NoEndpointError{Candidates: o.Candidates}
}

// Runtime returns the runtime service.
func (r *Remote) Runtime() internalapi.RuntimeService { return r.runtime }

// Images returns the image service.
func (r *Remote) Images() internalapi.ImageManagerService { return r.images }

// Endpoint returns the endpoint that was connected to.
func (r *Remote) Endpoint() string { return r.endpoint }

// Version returns what the runtime said of itself when it was connected to.
func (r *Remote) Version() Version { return r.version }

// Close hangs up. Containers are left alone.
func (r *Remote) Close(ctx context.Context) error {
	return errors.Join(r.runtime.Close(ctx), r.images.Close(ctx))
}
