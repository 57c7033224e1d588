package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxUIDLength is how long a UID may be. With what the kubelet puts around it
	// it stays far below the 255 bytes of a file name or systemd unit name.
	maxUIDLength = 128
	// maxLogDirLength is NAME_MAX: the pod's log directory is namespace_name_uid.
	maxLogDirLength = 255
	// maxAnnotationBytes is the API's limit for all annotations together.
	maxAnnotationBytes = 256 * 1024
	// maxErrors bounds what is reported about one pod.
	maxErrors = 32
)

// InvalidError says why a pod cannot be run as it is written. Its text names the
// pod, each field with its value, and the rule.
type InvalidError struct {
	// Pod is the pod as "namespace/name(uid)", made printable.
	Pod string
	// Errs are the faults, in the order of the fields; at least one.
	Errs field.ErrorList
	// More is how many further faults were found and are not in Errs.
	More int
}

// Error names the pod and every fault.
func (e *InvalidError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod %s is invalid: ", e.Pod)
	for i, err := range e.Errs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// Unwrap gives errors.As the single *field.Error values.
func (e *InvalidError) Unwrap() []error {
	errs := make([]error, len(e.Errs))
	for i, err := range e.Errs {
		errs[i] = err
	}
	return errs
}

// Reason is the reason of the event about it.
func (e *InvalidError) Reason() string { return "FailedValidation" }

// Validate tells whether a defaulted pod may be given to the stages: nil, or an
// *InvalidError. It checks what a node depends on: every name, UID and path that
// becomes a file, a directory, a cgroup, a label or a runtime argument, every
// reference within the pod, and every value a stage switches on. The rules are
// the API server's where it has one. It does not check what only an API server or a
// scheduler can judge (quota, affinity terms, security policy), nor what changes
// with the node.
//
// The rules of our own, which the API server does not have:
//
//   - the UID is required and consists of at most 128 letters, digits and inner
//     dashes. It becomes a directory name, a part of a cgroup name and a label
//     value. An underscore could not be told from the dash that systemd's unit
//     names turn into one; a dot or slash would leave its directory;
//   - namespace, name and UID joined by "_" are a directory name (the pod's logs)
//     and must fit in 255 bytes;
//   - a hostPath is absolute; a relative one would be taken from wherever the
//     agent was started;
//   - names of referred objects are required and valid even where the API server
//     lets empty ones pass for compatibility;
//   - resolver options contain no white space, which would add lines to resolv.conf.
func Validate(pod *corev1.Pod) error {
	c := &checker{pod: pod}
	c.meta()
	spec := field.NewPath("spec")
	c.spec(spec)
	c.podSecurity(spec.Child("securityContext"))
	c.volumes(spec.Child("volumes"))
	c.containers(spec)
	c.podResources(spec.Child("resources"))
	if len(c.errs) == 0 {
		return nil
	}
	return &InvalidError{Pod: printable(pod), Errs: c.errs, More: c.more}
}

// checker collects the faults of one pod.
type checker struct {
	pod  *corev1.Pod
	errs field.ErrorList
	more int

	// volume finds the pod's volumes by name.
	volume map[string]*corev1.Volume
	// claim holds the names in spec.resourceClaims.
	claim map[string]bool
}

func (c *checker) add(e *field.Error) {
	if len(c.errs) >= maxErrors {
		c.more++
		return
	}
	if s, ok := e.BadValue.(string); ok {
		e.BadValue = shorten(s)
	}
	c.errs = append(c.errs, e)
}

func (c *checker) invalid(p *field.Path, child string, value any, format string, args ...any) {
	c.add(field.Invalid(at(p, child), value, fmt.Sprintf(format, args...)))
}

func (c *checker) required(p *field.Path, child, detail string) {
	c.add(field.Required(at(p, child), detail))
}

func (c *checker) forbidden(p *field.Path, child, detail string) {
	c.add(field.Forbidden(at(p, child), detail))
}

// name checks a required value against a rule of package validation.
func (c *checker) name(p *field.Path, child, value string, rule func(string) []string) {
	if value == "" {
		c.required(p, child, "")
		return
	}
	c.optional(p, child, value, rule)
}

// optional checks a value that may be empty. A plain label satisfies every rule
// that is used with it, and saves the regular expression.
func (c *checker) optional(p *field.Path, child, value string, rule func(string) []string) {
	if value != "" && !plainLabel(value) {
		c.rule(p, child, value, rule)
	}
}

// plainLabel tells whether s is a DNS label: at most 63 lower-case letters,
// digits and inner dashes.
func plainLabel(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return true
}

func (c *checker) rule(p *field.Path, child, value string, rule func(string) []string) {
	if msgs := rule(value); len(msgs) > 0 {
		c.add(field.Invalid(at(p, child), value, strings.Join(msgs, ", and ")))
	}
}

// unique tells whether value was not yet in seen, and adds it.
func (c *checker) unique(p *field.Path, child, value string, seen map[string]bool) bool {
	if seen[value] {
		c.add(field.Duplicate(at(p, child), shorten(value)))
		return false
	}
	seen[value] = true
	return true
}

// oneOf checks a value against the values that are supported.
func oneOf[T ~string](c *checker, p *field.Path, child string, value T, supported ...T) bool {
	if slices.Contains(supported, value) {
		return true
	}
	c.add(field.NotSupported(at(p, child), T(shorten(string(value))), supported))
	return false
}

// inRange checks lo <= value <= hi.
func inRange[T int32 | int64](c *checker, p *field.Path, child string, value, lo, hi T) {
	if value < lo || value > hi {
		c.invalid(p, child, value, "must be between %d and %d", lo, hi)
	}
}

func at(p *field.Path, child string) *field.Path {
	switch {
	case child == "":
		return p
	case p == nil:
		return field.NewPath(child)
	default:
		return p.Child(child)
	}
}

func (c *checker) meta() {
	m := &c.pod.ObjectMeta
	p := field.NewPath("metadata")
	c.name(p, "name", m.Name, validation.IsDNS1123Subdomain)
	c.name(p, "namespace", m.Namespace, validation.IsDNS1123Label)
	if m.UID == "" {
		c.required(p, "uid", "")
	} else if err := CheckUID(string(m.UID)); err != "" {
		c.invalid(p, "uid", string(m.UID), "%s", err)
	}
	if n := len(m.Namespace) + len(m.Name) + len(m.UID) + len("__"); n > maxLogDirLength && len(m.Name) <= validation.DNS1123SubdomainMaxLength && len(m.UID) <= maxUIDLength {
		c.invalid(p, "name", m.Name, "namespace, name and uid become one directory name of %d bytes; at most %d are possible", n, maxLogDirLength)
	}
	c.labels(p.Child("labels"), m.Labels)
	size := 0
	for _, k := range sortedKeys(m.Annotations) {
		size += len(k) + len(m.Annotations[k])
		c.name(p, "annotations", strings.ToLower(k), validation.IsQualifiedName)
	}
	if size > maxAnnotationBytes {
		c.add(field.TooLong(p.Child("annotations"), "", maxAnnotationBytes))
	}
	if g := m.DeletionGracePeriodSeconds; g != nil && *g < 0 {
		c.invalid(p, "deletionGracePeriodSeconds", *g, "must not be negative")
	}
}

// CheckUID returns the rule that a pod's UID breaks, "" if it breaks none. See
// Validate for why there is a rule at all. Whoever builds a path or cgroup name
// from a UID that did not come with a validated pod asks it first.
func CheckUID(uid string) string {
	const rule = "must consist of letters, digits and inner '-', because it becomes a directory name, a cgroup name and a label value"
	if uid == "" || uid[0] == '-' || uid[len(uid)-1] == '-' {
		return rule
	}
	if len(uid) > maxUIDLength {
		return fmt.Sprintf("must be at most %d characters long", maxUIDLength)
	}
	for i := range len(uid) {
		switch b := uid[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-':
		default:
			return rule
		}
	}
	return ""
}

func (c *checker) labels(p *field.Path, labels map[string]string) {
	for _, k := range sortedKeys(labels) {
		c.name(p, "", k, validation.IsQualifiedName)
		c.optional(p, "", labels[k], func(v string) []string {
			if msgs := validation.IsValidLabelValue(v); len(msgs) > 0 {
				return []string{fmt.Sprintf("label %q: %s", shorten(k), strings.Join(msgs, ", and "))}
			}
			return nil
		})
	}
}

// sortedKeys makes the order of the faults that of the keys.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// shorten keeps a hostile value from filling the log.
func shorten(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

// printable is podsync.Ref for pods whose names may hold anything.
func printable(pod *corev1.Pod) string {
	q := fmt.Sprintf("%q", fmt.Sprintf("%s/%s(%s)", shorten(pod.Namespace), shorten(pod.Name), shorten(string(pod.UID))))
	return q[1 : len(q)-1]
}
