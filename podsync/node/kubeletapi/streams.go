package kubeletapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runTimeout bounds a command of /run, which has no stream to hang up.
const runTimeout = 5 * time.Minute

// running finds the container that a request names, and answers when it does not
// run.
func (h *Handler) running(w http.ResponseWriter, r *http.Request) (id string, ok bool) {
	pod := h.pod(w, r)
	if pod == nil {
		return "", false
	}
	name := r.PathValue("container")
	c := container(pod, name)
	switch {
	case c == nil:
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", name, pod.Namespace+"/"+pod.Name), http.StatusNotFound)
		return "", false
	case c.State.Running == nil || c.ContainerID == "":
		http.Error(w, fmt.Sprintf("container %q of pod %q is not running", name, pod.Namespace+"/"+pod.Name), http.StatusInternalServerError)
		return "", false
	}
	return containerID(c.ContainerID), true
}

// streams reads which streams a request wants, under the names of the kubelet's
// API and of the API server's.
func streams(q url.Values) (stdin, stdout, stderr, tty bool) {
	is := func(names ...string) bool {
		for _, n := range names {
			if v := q.Get(n); v == "1" || v == "true" {
				return true
			}
		}
		return false
	}
	tty = is("tty")
	return is("input", "stdin"), is("output", "stdout"), is("error", "stderr") && !tty, tty
}

func (h *Handler) exec(w http.ResponseWriter, r *http.Request) {
	id, ok := h.running(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	stdin, stdout, stderr, tty := streams(q)
	if !stdin && !stdout && !stderr {
		http.Error(w, "one of input, output and error must be asked for", http.StatusBadRequest)
		return
	}
	if len(q["command"]) == 0 {
		http.Error(w, "no command is given", http.StatusBadRequest)
		return
	}
	resp, err := h.cfg.Runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: q["command"], Stdin: stdin, Stdout: stdout, Stderr: stderr, Tty: tty,
	})
	h.proxy(w, r, resp.GetUrl(), err)
}

func (h *Handler) attach(w http.ResponseWriter, r *http.Request) {
	id, ok := h.running(w, r)
	if !ok {
		return
	}
	stdin, stdout, stderr, tty := streams(r.URL.Query())
	resp, err := h.cfg.Runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
		ContainerId: id, Stdin: stdin, Stdout: stdout, Stderr: stderr, Tty: tty,
	})
	h.proxy(w, r, resp.GetUrl(), err)
}

func (h *Handler) portForward(w http.ResponseWriter, r *http.Request) {
	pod := h.pod(w, r)
	if pod == nil {
		return
	}
	sandboxes, err := h.cfg.Runtime.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)},
	})
	if err == nil && len(sandboxes) == 0 {
		err = fmt.Errorf("pod %q has no ready sandbox", pod.Namespace+"/"+pod.Name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	newest := sandboxes[0]
	for _, s := range sandboxes[1:] {
		if s.CreatedAt > newest.CreatedAt {
			newest = s
		}
	}
	ports, err := wantedPorts(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := h.cfg.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: newest.Id, Port: ports})
	h.proxy(w, r, resp.GetUrl(), err)
}

// wantedPorts reads the ports of a websocket client; SPDY ones name theirs in the
// stream.
func wantedPorts(q url.Values) (ports []int32, err error) {
	for _, v := range q["port"] {
		for p := range strings.SplitSeq(v, ",") {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil || n == 0 {
				return nil, fmt.Errorf("port %q is none", p)
			}
			ports = append(ports, int32(n))
		}
	}
	return ports, nil
}

// proxy hands the connection to the runtime's streaming server.
func (h *Handler) proxy(w http.ResponseWriter, r *http.Request, to string, err error) {
	var u *url.URL
	if err == nil {
		u, err = url.Parse(to)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := proxy.NewUpgradeAwareHandler(u, nil, false, true, responder{h})
	p.ServeHTTP(w, r)
}

type responder struct{ h *Handler }

// Error implements proxy.ErrorResponder.
func (e responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	e.h.log.InfoContext(r.Context(), "a stream failed", "path", r.URL.Path, "err", err)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// run runs a command and answers with what it wrote.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) {
	id, ok := h.running(w, r)
	if !ok {
		return
	}
	stdout, stderr, err := h.cfg.Runtime.ExecSync(r.Context(), id, strings.Fields(r.URL.Query().Get("cmd")), runTimeout)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(append(stdout, stderr...)) // whoever asked may be gone
}

// logs serves a container's log.
func (h *Handler) logs(w http.ResponseWriter, r *http.Request) {
	opts, err := logOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	pod := h.pod(w, r)
	if pod == nil {
		return
	}
	target, err := logTarget(pod, r.PathValue("container"), opts.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &flushed{w: w, left: -1}
	if opts.LimitBytes != nil {
		out.left = *opts.LimitBytes
	}
	stdout, stderr := io.Writer(out), io.Writer(out)
	if opts.Stream != nil && *opts.Stream == corev1.LogStreamStdout {
		stderr = io.Discard
	} else if opts.Stream != nil && *opts.Stream == corev1.LogStreamStderr {
		stdout = io.Discard
	}
	w.Header().Set("Content-Type", "text/plain")
	if opts.Follow {
		out.Flush() // so that the client knows that the stream has begun
	}
	err = h.cfg.Logs.ReadLogs(r.Context(), target, opts, stdout, stderr)
	switch {
	case err == nil, errors.Is(err, errLimit), r.Context().Err() != nil:
	case errors.Is(err, ErrNoLog) && !out.sent:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		h.log.InfoContext(r.Context(), "a log was cut", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "container", target.Container, "err", err)
		fmt.Fprintf(out, "failed to read the log of container %q: %v\n", target.Container, err)
	}
}

// logTarget is the instance whose log is meant. As with the kubelet, a container
// that waits for its restart shows the log of the instance that ended.
func logTarget(pod *corev1.Pod, name string, previous bool) (LogTarget, error) {
	c := container(pod, name)
	t := LogTarget{Pod: pod, Container: name}
	switch {
	case c == nil:
		return t, fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	case previous && (c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ContainerID == ""):
		return t, fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
	case previous:
		t.ID, t.RestartCount = containerID(c.LastTerminationState.Terminated.ContainerID), max(int(c.RestartCount)-1, 0)
	case c.State.Running != nil:
		t.ID, t.RestartCount = containerID(c.ContainerID), int(c.RestartCount)
	case c.State.Terminated != nil && c.State.Terminated.ContainerID != "":
		t.ID, t.RestartCount = containerID(c.State.Terminated.ContainerID), int(c.RestartCount)
	case c.LastTerminationState.Terminated != nil && c.LastTerminationState.Terminated.ContainerID != "":
		t.ID, t.RestartCount = containerID(c.LastTerminationState.Terminated.ContainerID), int(c.RestartCount)
	case c.State.Waiting != nil && c.State.Waiting.Reason != "":
		return t, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, c.State.Waiting.Reason)
	default:
		return t, fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	return t, nil
}

// logOptions reads the query, with the names and the rules of the API.
func logOptions(q url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	for _, f := range []struct {
		name string
		set  func(string) error
	}{
		{"follow", flag(&o.Follow)}, {"previous", flag(&o.Previous)}, {"timestamps", flag(&o.Timestamps)},
		{"tailLines", func(v string) error { return number(v, 0, &o.TailLines) }},
		{"limitBytes", func(v string) error { return number(v, 1, &o.LimitBytes) }},
		{"sinceSeconds", func(v string) error { return number(v, 1, &o.SinceSeconds) }},
		{"sinceTime", func(v string) error {
			t, err := time.Parse(time.RFC3339, v)
			o.SinceTime = &metav1.Time{Time: t}
			return err
		}},
		{"stream", func(v string) error {
			if v != corev1.LogStreamAll && v != corev1.LogStreamStdout && v != corev1.LogStreamStderr {
				return errors.New("it must be All, Stdout or Stderr")
			}
			o.Stream = &v
			return nil
		}},
	} {
		if v := q.Get(f.name); v != "" {
			if err := f.set(v); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", f.name, v, err)
			}
		}
	}
	if q.Get("tailLines") == "all" {
		o.TailLines = nil
	}
	if o.SinceSeconds != nil && o.SinceTime != nil {
		return nil, errors.New("at most one of sinceTime and sinceSeconds may be given")
	}
	return o, nil
}

func flag(to *bool) func(string) error {
	return func(v string) (err error) {
		*to, err = strconv.ParseBool(v)
		return err
	}
}

func number(v string, least int64, to **int64) error {
	if v == "all" && least == 0 {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err == nil && n < least {
		err = fmt.Errorf("it must be at least %d", least)
	}
	*to = &n
	return err
}

// errLimit ends a log at the limit of bytes.
var errLimit = errors.New("the limit of bytes is reached")

// flushed sends each write at once, up to a limit.
type flushed struct {
	w    http.ResponseWriter
	left int64 // negative: no limit
	sent bool
}

func (f *flushed) Write(p []byte) (int, error) {
	cut := f.left >= 0 && int64(len(p)) > f.left
	if cut {
		p = p[:f.left]
	}
	n, err := f.w.Write(p)
	f.sent = f.sent || n > 0
	if f.left >= 0 {
		f.left -= int64(n)
	}
	f.Flush()
	if err == nil && cut {
		err = errLimit
	}
	return n, err
}

func (f *flushed) Flush() {
	if fl, ok := f.w.(http.Flusher); ok {
		fl.Flush()
	}
}
