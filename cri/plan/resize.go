package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync"
)

// Resize is a running instance one of whose resources is to be changed in
// place, to what the pod's spec says.
type Resize struct {
	// ID is the instance's; Kind, Index and Name say which container it is of,
	// as in Start.
	ID    string
	Kind  Kind
	Index int
	Name  string
	// Resource is corev1.ResourceMemory or corev1.ResourceCPU.
	Resource corev1.ResourceName
	// Shrinks says that no amount of it grows, and one gets smaller.
	Shrinks bool
}

// resizeRestarts tells whether the instance's resources are not the spec's and
// the container's resizePolicy asks for a restart then. An instance of which
// nobody knows what it was given is left alone.
func (p *planner) resizeRestarts(c *corev1.Container, r *podsync.RuntimeContainer) bool {
	if r.Actuated == nil || len(c.ResizePolicy) == 0 {
		return false
	}
	for i := range c.ResizePolicy {
		pol := &c.ResizePolicy[i]
		if pol.RestartPolicy == corev1.RestartContainer && p.resized(c, r, pol.ResourceName) {
			return true
		}
	}
	return false
}

// resized tells whether the instance has another amount of the resource than
// the spec gives it, as its own or through a limit of the pod as a whole.
func (p *planner) resized(c *corev1.Container, r *podsync.RuntimeContainer, n corev1.ResourceName) bool {
	if r.Actuated == nil {
		return false
	}
	if podsync.ResourceDiffers(&c.Resources, r.Actuated, n) {
		return true
	}
	if _, own := c.Resources.Limits[n]; own {
		return false
	}
	had, is := p.podLevel()
	return had != nil && podsync.ResourceDiffers(is, had, n)
}

// podLevel returns the pod-level resources that the sandbox was told last, nil
// when that is not known, and those of the spec.
func (p *planner) podLevel() (had, is *corev1.ResourceRequirements) {
	if len(p.Runtime.Sandboxes) == 0 {
		return nil, nil
	}
	return p.Runtime.Sandboxes[0].Actuated, p.Pod.Spec.Resources
}

// resize plans to change a running instance in place, if its resources are not
// the spec's.
func (p *planner) resize(k Kind, i int, c *corev1.Container, r *podsync.RuntimeContainer) {
	for _, n := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU} {
		if p.resized(c, r, n) {
			p.act.Resize = append(p.act.Resize, Resize{ID: r.ID, Kind: k, Index: i, Name: c.Name, Resource: n,
				Shrinks: podsync.ResourceShrinks(&c.Resources, r.Actuated, n)})
		}
	}
}

// resizePod settles the order of the resizes, and whether the pod as a whole is
// concerned.
func (p *planner) resizePod() {
	had, is := p.podLevel()
	p.act.ResizePod = len(p.act.Resize) > 0 || had != nil &&
		(podsync.ResourceDiffers(is, had, corev1.ResourceMemory) || podsync.ResourceDiffers(is, had, corev1.ResourceCPU))
	for i := range p.act.Kill {
		p.act.ResizePod = p.act.ResizePod || p.act.Kill[i].Reason == KillResized
	}
	if len(p.act.Resize) < 2 {
		return
	}
	rank := func(r Resize) int {
		n := 0
		if r.Resource != corev1.ResourceMemory {
			n = 2
		}
		if !r.Shrinks {
			n++
		}
		return n
	}
	slices.SortStableFunc(p.act.Resize, func(a, b Resize) int { return rank(a) - rank(b) })
}
