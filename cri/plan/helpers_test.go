package plan_test

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
)

const (
	created = podsync.ContainerCreated
	running = podsync.ContainerRunning
	exited  = podsync.ContainerExited
	unknown = podsync.ContainerUnknown
)

// hashOf stands for the runtime's container hash: name and image count.
func hashOf(c *corev1.Container) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", c.Name, c.Image)
	return h.Sum64()
}

type podOption func(*corev1.Pod)

// pod makes a pod from words: "a" is a regular container, "i:x" an init
// container, "s:x" a sidecar, "e:x" an ephemeral container.
func pod(policy corev1.RestartPolicy, words string, opts ...podOption) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID = "p", "ns", "u"
	p.Spec.RestartPolicy = policy
	always := corev1.ContainerRestartPolicyAlways
	for w := range strings.FieldsSeq(words) {
		kind, name, ok := strings.Cut(w, ":")
		if !ok {
			kind, name = "", w
		}
		c := corev1.Container{Name: name, Image: name + "-image"}
		switch kind {
		case "i":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case "s":
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case "e":
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: c.Name, Image: c.Image}})
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	for _, o := range opts {
		o(p)
	}
	return p
}

func find(p *corev1.Pod, name string) *corev1.Container {
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return &p.Spec.InitContainers[i]
		}
	}
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

func with(name string, fn func(*corev1.Container)) podOption {
	return func(p *corev1.Pod) { fn(find(p, name)) }
}

func own(policy corev1.ContainerRestartPolicy) func(*corev1.Container) {
	return func(c *corev1.Container) { c.RestartPolicy = &policy }
}

func ruled(policy corev1.ContainerRestartPolicy, action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.RestartPolicy = &policy
		c.RestartPolicyRules = append(c.RestartPolicyRules, corev1.ContainerRestartRule{
			Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}})
	}
}

// res makes resources; "" leaves an amount out.
func res(cpuRequest, cpuLimit, memoryRequest, memoryLimit string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	return corev1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func startupProbe(c *corev1.Container)  { c.StartupProbe = &corev1.Probe{} }
func livenessProbe(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{} }

// rt makes what the runtime holds from words, newest first: "S" is a ready
// sandbox, "!S" one that is not, with the attempt after it as in "S1"; "a" is a
// running instance of a, "a=1" one that exited with 1, "a+" a created one, "a?"
// one of unknown state, "a#" a running one of another spec; "/0" after a word
// puts it in the sandbox of that attempt, the default is the newest's.
func rt(p *corev1.Pod, words string) *podsync.RuntimePod {
	r := &podsync.RuntimePod{UID: p.UID}
	n := 0
	for w := range strings.FieldsSeq(words) {
		if strings.HasPrefix(w, "S") || strings.HasPrefix(w, "!S") {
			r.Sandboxes = append(r.Sandboxes, sandbox(w))
			continue
		}
		n++
		w, box, in := strings.Cut(w, "/")
		c := &podsync.RuntimeContainer{State: running, HashKnown: true}
		if in {
			c.SandboxID = "S" + box
		} else if len(r.Sandboxes) > 0 {
			c.SandboxID = r.Sandboxes[0].ID
		}
		name, code, ok := strings.Cut(w, "=")
		switch {
		case ok:
			c.State = exited
			if code == "oom" {
				c.Reason, code = "OOMKilled", "0"
			}
			fmt.Sscan(code, &c.ExitCode)
		case strings.HasSuffix(w, "+"):
			c.State = created
		case strings.HasSuffix(w, "?"):
			c.State = unknown
		}
		c.Name = strings.TrimRight(name, "+?#")
		c.ID = fmt.Sprintf("%s.%d", c.Name, n)
		if spec := find(p, c.Name); spec != nil {
			c.Hash = hashOf(spec)
		}
		if strings.HasSuffix(w, "#") {
			c.Hash++
		}
		r.Containers = append(r.Containers, c)
	}
	return r
}

func sandbox(w string) *podsync.RuntimeSandbox {
	s := &podsync.RuntimeSandbox{Ready: true, NetworkKnown: true, IPs: []string{"10.0.0.1"}}
	w, ok := strings.CutPrefix(w, "!")
	if ok {
		s.Ready = false
	}
	var attempt uint32
	fmt.Sscan(strings.Trim(w, "Sh*~"), &attempt)
	s.ID, s.Attempt = fmt.Sprintf("S%d", attempt), attempt
	switch {
	case strings.HasSuffix(w, "~"):
		s.IPs = nil
	case strings.HasSuffix(w, "*"):
		s.NetworkKnown, s.IPs = false, nil
	case strings.HasSuffix(w, "h"):
		s.HostNetwork, s.IPs = true, nil
	}
	return s
}

// show renders a plan in one line.
func show(a plan.Actions) string {
	var out []string
	add := func(f string, args ...any) { out = append(out, fmt.Sprintf(f, args...)) }
	if a.Over() {
		add("over")
	}
	if a.RestartAll {
		add("reset-by %s", a.Source)
	}
	for _, k := range a.Kill {
		add("kill %s %s", k.ID, k.Reason)
	}
	for _, r := range a.Remove {
		add("remove %s", r.ID)
	}
	for _, s := range a.StopSandboxes {
		add("stop %s", s)
	}
	if a.CreateSandbox {
		add("create %d", a.Attempt)
	}
	for _, r := range a.Resize {
		if r.Shrinks {
			add("resize %s %s shrinks", r.ID, r.Resource)
		} else {
			add("resize %s %s", r.ID, r.Resource)
		}
	}
	if a.ResizePod {
		add("resize pod")
	}
	for _, s := range a.Start {
		add("start %s", s.Name)
	}
	return strings.Join(out, "; ")
}

// verdicts are probe results by instance id, as "l" and "s" for a failed
// liveness and startup probe, "S" for a startup probe that succeeded.
type verdicts map[string]string

func (v verdicts) Liveness(id string) plan.Verdict {
	switch {
	case strings.Contains(v[id], "l"):
		return plan.Failure
	case strings.Contains(v[id], "L"):
		return plan.Success
	}
	return plan.Unknown
}

func (v verdicts) Startup(id string) plan.Verdict {
	switch {
	case strings.Contains(v[id], "s"):
		return plan.Failure
	case strings.Contains(v[id], "S"):
		return plan.Success
	}
	return plan.Unknown
}
