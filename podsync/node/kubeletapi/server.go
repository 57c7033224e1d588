// Package kubeletapi serves the kubelet's HTTP API for a node: what an API server
// and kubectl ask of it. Logs, exec, attach and port-forward, the pods, health and
// metrics.
//
//	/containerLogs/{namespace}/{pod}/{container}
//	/exec/{namespace}/{pod}[/{uid}]/{container}, /attach, /run likewise
//	/portForward/{namespace}/{pod}[/{uid}]
//	/pods, /runningpods/, /healthz, /metrics, /stats/summary
//
// Who may ask what is for an Authenticator and an Authorizer to say; package
// cluster's Reviewer lets the API server say it, as the kubelet does.
package kubeletapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
)

// Identity is who sends a request.
type Identity struct {
	// Name is the user's name, UID an identifier that may be empty.
	Name, UID string
	// Groups are the user's groups.
	Groups []string
	// Extra is what else the authenticator said of the user.
	Extra map[string][]string
}

// Attributes is what a request wants to do, in the terms of a SubjectAccessReview:
// Verb on the Subresource of nodes, for this node.
type Attributes struct {
	// Verb is get, create, update, patch or delete.
	Verb string
	// Subresources are the names under which the kubelet's API is known to
	// administrators, the narrowest first; one that is allowed is enough:
	// "pods" and "proxy", say.
	Subresources []string
}

// Authenticator tells who sends a request; ok is false when it cannot be told.
type Authenticator interface {
	Authenticate(r *http.Request) (id *Identity, ok bool, err error)
}

// Authorizer tells whether somebody may do something. An error means that it
// could not be found out; the request is then refused.
type Authorizer interface {
	Authorize(ctx context.Context, id *Identity, a Attributes) (allowed bool, reason string, err error)
}

// Pods are the node's pods with the statuses that the node gives them.
type Pods interface {
	// List returns all; they are read-only.
	List() []*corev1.Pod
}

// LogTarget is one instance of a container whose log is wanted.
type LogTarget struct {
	// Pod is the pod with its status.
	Pod *corev1.Pod
	// Container is the container's name, ID the runtime's id of the instance
	// without a scheme.
	Container, ID string
	// RestartCount is the instance's.
	RestartCount int
}

// Logs reads the logs of containers.
type Logs interface {
	// ReadLogs writes the log as the options ask for. It returns when the log has
	// ended, or with Follow when the container has, or ctx. Nothing has been written
	// when it returns an error that matches ErrNoLog.
	ReadLogs(ctx context.Context, target LogTarget, opts *corev1.PodLogOptions, stdout, stderr io.Writer) error
}

// ErrNoLog says that there is no log to be read.
var ErrNoLog = errors.New("no log")

// Config says what is served. Pods is required.
type Config struct {
	// Pods are the node's pods.
	Pods Pods
	// Runtime is the container runtime; nil serves no exec, attach, port-forward.
	Runtime internalapi.RuntimeService
	// Logs reads logs; nil serves none.
	Logs Logs
	// Stats returns the node's summary, as JSON of the kubelet's stats/v1alpha1;
	// nil serves none.
	Stats func(ctx context.Context) (any, error)
	// Healthy tells what is wrong with the node; nil is always well.
	Healthy func() error
	// Metrics serves /metrics; nil serves none.
	Metrics http.Handler
	// More are further paths of the program's own, like "GET /explain".
	More map[string]http.Handler
	// Authenticator and Authorizer guard everything but /healthz. Without them
	// everybody is let in who reaches the address; Runtime and Logs are then
	// refused, as whoever can run commands in every container owns the node.
	Authenticator Authenticator
	Authorizer    Authorizer
	// StreamIdleTimeout ends an exec, attach or port-forward on which nothing was
	// sent for that long; default 4 h.
	StreamIdleTimeout time.Duration
	// Logger takes the log; nil discards.
	Logger *slog.Logger
}

// Handler is the API as an http.Handler. Safe for concurrent use.
type Handler struct {
	cfg Config
	log *slog.Logger
	mux *http.ServeMux
}

var _ http.Handler = (*Handler)(nil)

// New makes the handler.
func New(cfg Config) (*Handler, error) {
	if cfg.Pods == nil {
		return nil, errors.New("kubeletapi: Config.Pods is required")
	}
	if (cfg.Authenticator == nil) != (cfg.Authorizer == nil) {
		return nil, errors.New("kubeletapi: Config.Authenticator and Authorizer come together")
	}
	if cfg.Authenticator == nil && (cfg.Runtime != nil || cfg.Logs != nil) {
		return nil, errors.New("kubeletapi: Config.Runtime and Logs need an Authenticator and an Authorizer: logs and commands are not for everybody who reaches the address")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{cfg: cfg, log: cfg.Logger, mux: http.NewServeMux()}
	h.routes()
	return h, nil
}

func (h *Handler) routes() {
	h.mux.HandleFunc("GET /healthz", h.healthz)
	h.mux.HandleFunc("GET /healthz/{check}", h.healthz)
	h.handle("GET /pods", []string{"pods", "proxy"}, h.pods)
	h.handle("GET /pods/", []string{"pods", "proxy"}, h.pods)
	h.handle("GET /runningpods/", []string{"pods", "proxy"}, h.pods)
	if h.cfg.Logs != nil {
		h.handle("GET /containerLogs/{namespace}/{pod}/{container}", []string{"proxy"}, h.logs)
	}
	if h.cfg.Runtime != nil {
		for _, verb := range []string{"GET", "POST"} {
			h.handle(verb+" /exec/{namespace}/{pod}/{container}", []string{"proxy"}, h.exec)
			h.handle(verb+" /exec/{namespace}/{pod}/{uid}/{container}", []string{"proxy"}, h.exec)
			h.handle(verb+" /attach/{namespace}/{pod}/{container}", []string{"proxy"}, h.attach)
			h.handle(verb+" /attach/{namespace}/{pod}/{uid}/{container}", []string{"proxy"}, h.attach)
			h.handle(verb+" /portForward/{namespace}/{pod}", []string{"proxy"}, h.portForward)
			h.handle(verb+" /portForward/{namespace}/{pod}/{uid}", []string{"proxy"}, h.portForward)
		}
		h.handle("POST /run/{namespace}/{pod}/{container}", []string{"proxy"}, h.run)
		h.handle("POST /run/{namespace}/{pod}/{uid}/{container}", []string{"proxy"}, h.run)
	}
	if h.cfg.Stats != nil {
		h.handle("GET /stats/summary", []string{"stats", "proxy"}, h.stats)
	}
	if h.cfg.Metrics != nil {
		h.handle("GET /metrics", []string{"metrics", "proxy"}, h.cfg.Metrics.ServeHTTP)
	}
	for pattern, more := range h.cfg.More {
		h.handle(pattern, []string{"proxy"}, more.ServeHTTP)
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Serve serves the API on the listener until ctx ends; streams are then cut. It
// returns nil at that.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // Serve tells of it
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the node's API on %s: %w", l.Addr(), err)
	}
	return nil
}

// handle registers a handler behind the guard.
func (h *Handler) handle(pattern string, subresources []string, f http.HandlerFunc) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if h.allowed(w, r, subresources) {
			f(w, r)
		}
	})
}

// allowed lets a request pass or answers it.
func (h *Handler) allowed(w http.ResponseWriter, r *http.Request, subresources []string) bool {
	if h.cfg.Authenticator == nil {
		return true
	}
	id, ok, err := h.cfg.Authenticator.Authenticate(r)
	if err != nil || !ok {
		if err != nil {
			h.log.InfoContext(r.Context(), "a request is not authenticated", "path", r.URL.Path, "from", r.RemoteAddr, "err", err)
		}
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	a := Attributes{Verb: verbOf(r.Method), Subresources: subresources}
	allowed, reason, err := h.cfg.Authorizer.Authorize(r.Context(), id, a)
	switch {
	case err != nil:
		h.log.WarnContext(r.Context(), "a request cannot be authorized", "path", r.URL.Path, "user", id.Name, "err", err)
		http.Error(w, "Authorization error (user="+id.Name+", verb="+a.Verb+", resource=nodes, subresource="+strings.Join(subresources, " or ")+")", http.StatusInternalServerError)
		return false
	case !allowed:
		h.log.InfoContext(r.Context(), "a request is forbidden", "path", r.URL.Path, "user", id.Name, "reason", reason)
		http.Error(w, "Forbidden (user="+id.Name+", verb="+a.Verb+", resource=nodes, subresource="+strings.Join(subresources, " or ")+")", http.StatusForbidden)
		return false
	}
	return true
}

// verbOf is the API verb of an HTTP method, as the kubelet maps them.
func verbOf(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return "get"
	}
}

func (h *Handler) healthz(w http.ResponseWriter, _ *http.Request) {
	if h.cfg.Healthy != nil {
		if err := h.cfg.Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	_, _ = io.WriteString(w, "ok") // whoever asked may be gone
}

func (h *Handler) pods(w http.ResponseWriter, r *http.Request) {
	list := corev1.PodList{}
	list.APIVersion, list.Kind = "v1", "PodList"
	for _, p := range h.cfg.Pods.List() {
		list.Items = append(list.Items, *p)
	}
	h.answer(w, r, &list)
}

func (h *Handler) stats(w http.ResponseWriter, r *http.Request) {
	s, err := h.cfg.Stats(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.answer(w, r, s)
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		h.log.DebugContext(r.Context(), "an answer was not sent", "path", r.URL.Path, "err", err)
	}
}

// pod finds the pod that a request names, or answers that there is none.
func (h *Handler) pod(w http.ResponseWriter, r *http.Request) *corev1.Pod {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), types.UID(r.PathValue("uid"))
	if uid == "" {
		uid = types.UID(r.URL.Query().Get("uid"))
	}
	for _, p := range h.cfg.Pods.List() {
		if p.Namespace == namespace && p.Name == name && (uid == "" || p.UID == uid) {
			return p
		}
	}
	http.Error(w, fmt.Sprintf("pod %q not found", namespace+"/"+name), http.StatusNotFound)
	return nil
}

// containerID is the id without its scheme.
func containerID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// container finds the container's status in the pod's.
func container(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
