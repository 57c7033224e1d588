package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resources checks one container's requirements.
func (c *checker) resources(p *field.Path, r *corev1.ResourceRequirements) {
	if len(r.Limits)+len(r.Requests)+len(r.Claims) == 0 {
		return
	}
	c.quantities(p.Child("limits"), r.Limits)
	c.quantities(p.Child("requests"), r.Requests)
	c.requestsWithinLimits(p, r)
	hugePages, ordinary := false, false
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			hugePages = hugePages || isHugePages(name)
			ordinary = ordinary || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	if hugePages && !ordinary {
		c.forbidden(p, "", "huge pages need cpu or memory beside them")
	}
	seen := make(map[string]bool, len(r.Claims))
	for i := range r.Claims {
		cl, cp := &r.Claims[i], p.Child("claims").Index(i)
		if !c.claim[cl.Name] {
			c.add(field.NotFound(cp.Child("name"), shorten(cl.Name)))
		}
		c.unique(cp, "", cl.Name+"/"+cl.Request, seen)
	}
}

// quantities checks names and values of a list.
func (c *checker) quantities(p *field.Path, list corev1.ResourceList) {
	for _, name := range sortedKeys(list) {
		q := list[name]
		if msg := resourceNameRule(name); msg != "" {
			c.invalid(p, "", string(name), "%s", msg)
		}
		if q.Sign() < 0 {
			c.invalid(p.Key(shorten(string(name))), "", q.String(), "must not be negative")
		}
		if whole := q.DeepCopy(); !overcommittable(name) && !whole.RoundUp(0) {
			c.invalid(p.Key(shorten(string(name))), "", q.String(), "must be an integer")
		}
	}
}

func (c *checker) requestsWithinLimits(p *field.Path, r *corev1.ResourceRequirements) {
	for _, name := range sortedKeys(r.Requests) {
		q := r.Requests[name]
		limit, limited := r.Limits[name]
		key := shorten(string(name))
		switch {
		case !limited && !overcommittable(name):
			c.required(p.Child("limits"), "", key+" must be limited, for it cannot be overcommitted")
		case limited && !overcommittable(name) && q.Cmp(limit) != 0:
			c.invalid(p.Child("requests").Key(key), "", q.String(), "must equal the %s limit of %s, for it cannot be overcommitted", key, limit.String())
		case limited && q.Cmp(limit) > 0:
			c.invalid(p.Child("requests").Key(key), "", q.String(), "must be less than or equal to the %s limit of %s", key, limit.String())
		}
	}
}

// podResources checks pod-level resources, against the containers' too.
func (c *checker) podResources(p *field.Path) {
	r := c.pod.Spec.Resources
	if r == nil {
		return
	}
	if len(r.Claims) > 0 {
		c.forbidden(p, "claims", "a pod as a whole has no claims; its containers have")
	}
	c.quantities(p.Child("limits"), r.Limits)
	c.quantities(p.Child("requests"), r.Requests)
	c.requestsWithinLimits(p, r)
	for _, l := range []struct {
		child string
		list  corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range sortedKeys(l.list) {
			if !resourcehelper.IsSupportedPodLevelResource(name) {
				oneOf(c, p, l.child, string(name), "cpu", "memory", "hugepages-<size>")
			}
		}
	}
	sums := resourcehelper.AggregateContainerRequests(c.pod, resourcehelper.PodResourcesOptions{})
	for _, name := range sortedKeys(r.Requests) {
		q := r.Requests[name]
		if sum, ok := sums[name]; ok && q.Cmp(sum) < 0 {
			c.invalid(p.Child("requests").Key(string(name)), "", q.String(), "must be greater than or equal to the containers' requests of %s", sum.String())
		}
	}
	for _, name := range sortedKeys(r.Limits) {
		q := r.Limits[name]
		for i := range c.pod.Spec.Containers {
			limit, ok := c.pod.Spec.Containers[i].Resources.Limits[name]
			if ok && limit.Cmp(q) > 0 {
				c.invalid(p.Child("limits").Key(string(name)), "", q.String(), "must be greater than or equal to container %s's limit of %s", shorten(c.pod.Spec.Containers[i].Name), limit.String())
			}
		}
	}
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// native tells whether a name is one of Kubernetes' own, without a domain or
// with its own.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// overcommittable tells whether a request may be smaller than the limit, and
// fractional: not so for huge pages and what device plugins offer.
func overcommittable(name corev1.ResourceName) bool { return native(name) && !isHugePages(name) }

func resourceNameRule(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return ""
	}
	if msgs := validation.IsQualifiedName(string(name)); len(msgs) > 0 {
		return msgs[0]
	}
	if strings.Contains(string(name), "/") {
		return ""
	}
	if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
		return positiveQuantity(size)
	}
	return "must be cpu, memory, ephemeral-storage, hugepages-<size> or a name with a domain"
}

// positiveQuantity returns what is wrong with a size, "" if nothing is.
func positiveQuantity(s string) string {
	q, err := resource.ParseQuantity(s)
	if err != nil || q.Sign() <= 0 {
		return "must be a positive quantity"
	}
	return ""
}
