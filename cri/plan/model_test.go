package plan_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cri/plan"
	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/podspec"
)

// model is a container runtime that carries plans out one action at a time.
type model struct {
	t      *rapid.T
	pod    *corev1.Pod
	rt     *podsync.RuntimePod
	exits  map[string][]int32 // codes that instances of a name still exit with
	starts map[string]int
	kills  map[string]int
	serial int
}

func (m *model) act(a plan.Actions) []func() {
	var do []func()
	for _, k := range a.Kill {
		do = append(do, func() { m.end(k.ID, 137); m.kills[k.Name]++ })
	}
	for _, r := range a.Remove {
		do = append(do, func() { m.remove(r.ID) })
	}
	for _, s := range a.StopSandboxes {
		do = append(do, func() { m.stopSandbox(s) })
	}
	if a.CreateSandbox {
		do = append(do, func() { m.runSandbox(a.Attempt) })
	}
	for _, s := range a.Start {
		var c *podsync.RuntimeContainer
		do = append(do, func() { c = m.create(s.Name) }, func() { m.start(c) })
	}
	return do
}

func (m *model) byID(id string) *podsync.RuntimeContainer {
	for _, c := range m.rt.Containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (m *model) end(id string, code int32) {
	if c := m.byID(id); c != nil && c.State != exited {
		c.State, c.ExitCode = exited, code
	}
}

func (m *model) remove(id string) {
	for i, c := range m.rt.Containers {
		if c.ID == id {
			if c.State == running {
				m.t.Fatalf("%s is removed while it runs", id)
			}
			m.rt.Containers = append(m.rt.Containers[:i:i], m.rt.Containers[i+1:]...)
			return
		}
	}
}

func (m *model) stopSandbox(id string) {
	for _, s := range m.rt.Sandboxes {
		if s.ID == id {
			s.Ready = false
		}
	}
	for _, c := range m.rt.Containers {
		if c.SandboxID == id && c.State == running {
			m.end(c.ID, 137)
		}
	}
}

func (m *model) runSandbox(attempt uint32) {
	for _, s := range m.rt.Sandboxes {
		if s.Attempt == attempt {
			m.t.Fatalf("sandbox attempt %d is made twice", attempt)
		}
		if s.Ready {
			m.t.Fatalf("sandbox %s is still ready when the next is made", s.ID)
		}
	}
	s := sandbox(fmt.Sprintf("S%d", attempt))
	m.rt.Sandboxes = append([]*podsync.RuntimeSandbox{s}, m.rt.Sandboxes...)
}

func (m *model) create(name string) *podsync.RuntimeContainer {
	m.serial++
	c := &podsync.RuntimeContainer{ID: fmt.Sprintf("%s-%d", name, m.serial), Name: name,
		SandboxID: m.rt.Sandboxes[0].ID, State: created, HashKnown: true}
	if spec := find(m.pod, name); spec != nil {
		c.Hash = hashOf(spec)
	}
	m.rt.Containers = append([]*podsync.RuntimeContainer{c}, m.rt.Containers...)
	return c
}

func (m *model) start(c *podsync.RuntimeContainer) {
	for _, o := range m.rt.Containers {
		if o.Name == c.Name && (o.State == running || o.State == unknown) {
			m.t.Fatalf("%s is started beside %s: %s", c.ID, o.ID, m)
		}
	}
	c.State = running
	m.starts[c.Name]++
}

// step lets one running instance exit that is due to; false when none is.
func (m *model) step() bool {
	for i := len(m.rt.Containers) - 1; i >= 0; i-- {
		c := m.rt.Containers[i]
		if codes := m.exits[c.Name]; c.State == running && len(codes) > 0 {
			m.exits[c.Name] = codes[1:]
			m.end(c.ID, codes[0])
			return true
		}
	}
	return false
}

func (m *model) String() string {
	var b strings.Builder
	for _, s := range m.rt.Sandboxes {
		fmt.Fprintf(&b, "%s:%v ", s.ID, s.Ready)
	}
	for _, c := range m.rt.Containers {
		fmt.Fprintf(&b, "%s:%v=%d/%s ", c.ID, c.State, c.ExitCode, c.SandboxID)
	}
	return b.String()
}

// drawPod draws a pod and how often its containers exit before they settle.
func drawPod(t *rapid.T) (*corev1.Pod, map[string][]int32) {
	words := ""
	kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"i:", "s:"}), 0, 3).Draw(t, "inits")
	for i, k := range kinds {
		words += fmt.Sprintf("%si%d ", k, i)
	}
	n := rapid.IntRange(1, 3).Draw(t, "regulars")
	for i := range n {
		words += fmt.Sprintf("c%d ", i)
	}
	if rapid.Bool().Draw(t, "ephemeral") {
		words += "e:e0 "
	}
	p := pod(rapid.SampledFrom([]corev1.RestartPolicy{always, onFailure, never}).Draw(t, "policy"), words)
	codes := rapid.SliceOfN(rapid.SampledFrom([]int32{0, 1, 42, 137}), 0, 3)
	exits := map[string][]int32{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		drawPolicy(t, c, podspec.IsSidecar(c))
		exits[c.Name] = codes.Draw(t, c.Name)
		if !podspec.IsSidecar(c) {
			// A plain init container ends, again and again if it must.
			for range 40 {
				exits[c.Name] = append(exits[c.Name], 0)
			}
		}
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		drawPolicy(t, c, false)
		exits[c.Name] = codes.Draw(t, c.Name)
	}
	exits["e0"] = codes.Draw(t, "e0")
	return p, exits
}

func drawPolicy(t *rapid.T, c *corev1.Container, sidecar bool) {
	if sidecar || rapid.IntRange(0, 3).Draw(t, "own policy of "+c.Name) > 0 {
		return
	}
	pol := rapid.SampledFrom([]corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure}).Draw(t, c.Name)
	action := rapid.SampledFrom([]corev1.ContainerRestartRuleAction{corev1.ContainerRestartRuleActionRestart,
		corev1.ContainerRestartRuleActionRestartAllContainers}).Draw(t, c.Name)
	ruled(pol, action, corev1.ContainerRestartRuleOnExitCodesOpIn, 42)(c)
}

// drawHistory draws what the runtime holds before the first plan: as much of a
// start as a crash may have left, then what may have happened to it since.
func (m *model) drawHistory() {
	t := m.t
	for range rapid.IntRange(0, 3).Draw(t, "earlier runs") {
		do := m.act(m.compute())
		for _, f := range do[:rapid.IntRange(0, len(do)).Draw(t, "of which done")] {
			f()
		}
		m.step()
	}
	if rapid.Bool().Draw(t, "sandbox died") {
		for _, s := range m.rt.Sandboxes {
			m.stopSandbox(s.ID)
		}
	}
	if rapid.Bool().Draw(t, "states unknown") {
		for _, c := range m.rt.Containers {
			if c.State == running {
				c.State = unknown
			}
		}
	}
	if rapid.Bool().Draw(t, "pruned") {
		kept := m.rt.Containers[:0]
		for _, c := range m.rt.Containers {
			if c.State != exited {
				kept = append(kept, c)
			}
		}
		m.rt.Containers = kept
	}
}

func (m *model) compute() plan.Actions {
	in := plan.Input{Pod: m.pod, Runtime: m.rt, Hashes: plan.Hashes(m.pod, hashOf)}
	a := plan.Compute(in)
	if again := plan.Compute(in); show(again) != show(a) {
		m.t.Fatalf("two plans of one state: %q and %q", show(a), show(again))
	}
	return a
}

// TestPlansConverge: whatever the pod, its history and the points at which the
// process that carries the plans out dies, the plans come to an end with one
// running instance of each container that is to run, and never two on the way.
func TestPlansConverge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, exits := drawPod(t)
		m := &model{t: t, pod: p, rt: &podsync.RuntimePod{UID: p.UID}, exits: exits, starts: map[string]int{}, kills: map[string]int{}}
		m.drawHistory()
		clear(m.starts)
		var trail []string
		crashes := rapid.IntRange(0, 8).Draw(t, "crashes")
		for n := 0; ; n++ {
			if n > 400 {
				t.Fatalf("no end: %s\n%s", m, strings.Join(trail[len(trail)-20:], "\n"))
			}
			a := m.compute()
			trail = append(trail, show(a)+"   | "+m.String())
			if a.Nothing() {
				if !m.step() {
					m.settled(a)
					return
				}
				continue
			}
			do := m.act(a)
			cut := len(do)
			if crashes > 0 && rapid.Bool().Draw(t, "crash") {
				crashes--
				cut = rapid.IntRange(0, len(do)).Draw(t, "after")
			}
			for _, f := range do[:cut] {
				f()
			}
		}
	})
}

// settled checks the state in which there is nothing more to do.
func (m *model) settled(a plan.Actions) {
	count := map[string]int{}
	for _, c := range m.rt.Containers {
		if c.State == running || c.State == unknown {
			count[c.Name]++
		}
	}
	for name, n := range count {
		if n > 1 {
			m.t.Fatalf("%d instances of %s run: %s", n, name, m)
		}
	}
	ready := 0
	for _, s := range m.rt.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	if a.Over() {
		if len(count)+ready > 0 {
			m.t.Fatalf("a pod that is over still runs: %s", m)
		}
		return
	}
	if ready != 1 {
		m.t.Fatalf("%d sandboxes are ready: %s", ready, m)
	}
	runs := 0
	for _, c := range m.pod.Spec.Containers {
		runs += count[c.Name]
		if m.pod.Spec.RestartPolicy == always && c.RestartPolicy == nil && count[c.Name] == 0 {
			m.t.Fatalf("%s does not run under Always: %s", c.Name, m)
		}
	}
	if runs == 0 {
		m.t.Fatalf("no regular container runs and the pod is not over: %s", m)
	}
}

// TestPlansStartNoMoreThanNeeded: with no crash and no fault a container is
// started once, and once more for each of its exits.
func TestPlansStartNoMoreThanNeeded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, exits := drawPod(t)
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].RestartPolicyRules = nil
		}
		for i := range p.Spec.InitContainers {
			p.Spec.InitContainers[i].RestartPolicyRules = nil
		}
		had := map[string]int{}
		for n, codes := range exits {
			had[n] = len(codes)
		}
		m := &model{t: t, pod: p, rt: &podsync.RuntimePod{UID: p.UID}, exits: exits, starts: map[string]int{}, kills: map[string]int{}}
		for n := 0; n < 400; n++ {
			a := m.compute()
			if a.Nothing() && !m.step() {
				break
			}
			if len(a.Kill) > 0 && !a.Over() {
				t.Fatalf("a kill without a cause: %s: %s", show(a), m)
			}
			for _, f := range m.act(a) {
				f()
			}
		}
		for name, n := range m.starts {
			if c := had[name] - len(m.exits[name]); n > c+1 {
				t.Errorf("%s was started %d times and exited %d times", name, n, c)
			}
		}
	})
}
