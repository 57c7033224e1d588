package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Call is one CRI call, as an Intercept sees it and as Calls remembers it.
type Call struct {
	// N numbers all calls, Nth those of this method, Mutation those that change something (0 for one that
	// does not). Each starts with 1.
	N, Nth, Mutation int
	// Method is the CRI method's name, "RunPodSandbox".
	Method string
	// Request is the CRI request, *runtimeapi.RunPodSandboxRequest for example. Read it only. Calls
	// remembers the requests of mutating calls only.
	Request any
	// ID is the sandbox or container the call names; it may not exist.
	ID string
	// PodNamespace, PodName, PodUID and PodAttempt are those of the sandbox concerned, Container and Attempt
	// those of the container, where the call has one and the Runtime knows it.
	PodNamespace, PodName, PodUID, Container string
	PodAttempt, Attempt                      uint32
	// Image is the image of CreateContainer, PullImage, ImageStatus and RemoveImage.
	Image string
	// Grace is StopContainer's timeout in seconds.
	Grace int64
	// Command is that of ExecSync.
	Command []string
	// Time is when the call came, Ended when it returned; zero while it runs.
	Time, Ended time.Time
	// Err is how it ended.
	Err error
}

// String is the call as one line: "RunPodSandbox default/web#0", "StopContainer default/web/app grace=30",
// with " error=" and the status code's name when it failed. A container's attempt is shown from the second on.
func (c Call) String() string {
	var b strings.Builder
	b.WriteString(c.Method)
	switch {
	case c.PodName != "" && c.Container != "":
		fmt.Fprintf(&b, " %s/%s/%s", c.PodNamespace, c.PodName, c.Container)
		if c.Attempt > 0 {
			fmt.Fprintf(&b, "#%d", c.Attempt)
		}
	case c.PodName != "":
		fmt.Fprintf(&b, " %s/%s#%d", c.PodNamespace, c.PodName, c.PodAttempt)
	case c.ID != "":
		fmt.Fprintf(&b, " id=%.13s", c.ID)
	case c.Image != "":
		b.WriteString(" " + c.Image)
	}
	if c.Method == "StopContainer" {
		fmt.Fprintf(&b, " grace=%d", c.Grace)
	}
	if len(c.Command) > 0 {
		fmt.Fprintf(&b, " cmd=%q", strings.Join(c.Command, " "))
	}
	if c.Err != nil {
		fmt.Fprintf(&b, " error=%s", status.Code(c.Err))
	}
	return b.String()
}

// Calls is a list of calls, oldest first.
type Calls []Call

// Lines is one String per call.
func (cs Calls) Lines() []string {
	lines := make([]string, len(cs))
	for i, c := range cs {
		lines[i] = c.String()
	}
	return lines
}

// String is the Lines, one per line.
func (cs Calls) String() string { return strings.Join(cs.Lines(), "\n") }

// Mutating leaves the calls that change something.
func (cs Calls) Mutating() Calls {
	return cs.Where(func(c Call) bool { return c.Mutation > 0 })
}

// Of leaves the calls of those methods.
func (cs Calls) Of(methods ...string) Calls {
	return cs.Where(func(c Call) bool { return slices.Contains(methods, c.Method) })
}

// Where leaves the calls for which keep is true.
func (cs Calls) Where(keep func(Call) bool) Calls {
	out := Calls{}
	for _, c := range cs {
		if keep(c) {
			out = append(out, c)
		}
	}
	return out
}

// Calls returns a copy of the latest calls, also those that still run.
func (r *Runtime) Calls() Calls {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(Calls, len(r.gate.calls))
	for i, c := range r.gate.calls {
		out[i] = *c
	}
	return out
}

// ResetCalls forgets the recorded calls, and numbering starts with 1 again.
func (r *Runtime) ResetCalls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.calls = nil
	r.gate.n, r.gate.mutations = 0, 0
	clear(r.gate.nth)
}

// mutating says whether a method changes something that outlives the call.
func mutating(method string) bool {
	switch method {
	case "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "UpdatePodSandboxResources",
		"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "UpdateContainerResources",
		"ExecSync", "PullImage", "RemoveImage", "UpdateRuntimeConfig":
		return true
	}
	return false
}

// describe fills in whom and what the request is about. The lock is held.
func (r *Runtime) describe(c *Call, req any) {
	switch q := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		c.pod(q.GetConfig().GetMetadata())
	case *runtimeapi.CreateContainerRequest:
		c.Image = q.GetConfig().GetImage().GetImage()
		c.Container, c.Attempt = q.GetConfig().GetMetadata().GetName(), q.GetConfig().GetMetadata().GetAttempt()
		c.pod(q.GetSandboxConfig().GetMetadata())
		if c.PodName == "" {
			r.describeSandbox(c, q.GetPodSandboxId())
		}
		c.ID = q.GetPodSandboxId()
	case *runtimeapi.StopContainerRequest:
		c.Grace = q.GetTimeout()
		r.describeContainer(c, q.GetContainerId())
	case *runtimeapi.ExecSyncRequest:
		c.Command = q.GetCmd()
		r.describeContainer(c, q.GetContainerId())
	case *runtimeapi.PullImageRequest:
		c.Image = q.GetImage().GetImage()
	case *runtimeapi.ImageStatusRequest:
		c.Image = q.GetImage().GetImage()
	case *runtimeapi.RemoveImageRequest:
		c.Image = q.GetImage().GetImage()
	case interface{ GetContainerId() string }:
		r.describeContainer(c, q.GetContainerId())
	case interface{ GetPodSandboxId() string }:
		r.describeSandbox(c, q.GetPodSandboxId())
	}
}

func (c *Call) pod(m *runtimeapi.PodSandboxMetadata) {
	c.PodNamespace, c.PodName, c.PodUID, c.PodAttempt = m.GetNamespace(), m.GetName(), m.GetUid(), m.GetAttempt()
}

func (r *Runtime) describeSandbox(c *Call, id string) {
	c.ID = id
	if s, ok := r.state.sandboxes[id]; ok {
		c.pod(s.config.Metadata)
	}
}

func (r *Runtime) describeContainer(c *Call, id string) {
	c.ID = id
	if k, ok := r.state.containers[id]; ok {
		c.Container, c.Attempt = k.config.Metadata.Name, k.config.Metadata.Attempt
		c.pod(k.sandbox.Metadata)
	}
}
