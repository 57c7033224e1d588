package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// The limits of resolv.conf that the API sets.
	maxNameservers = 3
	maxSearches    = 32
	maxSearchBytes = 2048
	// maxHostnameLength is that of the kernel's nodename.
	maxHostnameLength = 64
)

func (c *checker) spec(p *field.Path) {
	s := &c.pod.Spec
	oneOf(c, p, "restartPolicy", s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	if v := s.ActiveDeadlineSeconds; v != nil {
		inRange(c, p, "activeDeadlineSeconds", *v, 1, math.MaxInt32)
	}
	if v := s.TerminationGracePeriodSeconds; v == nil {
		c.required(p, "terminationGracePeriodSeconds", "")
	} else if *v < 0 {
		c.invalid(p, "terminationGracePeriodSeconds", *v, "must not be negative")
	}
	c.specNames(p)
	c.hostnames(p)
	c.dns(p)
	if s.OS != nil {
		oneOf(c, p.Child("os"), "name", s.OS.Name, corev1.Linux, corev1.Windows)
	}
	for i := range s.Tolerations {
		c.toleration(p.Child("tolerations").Index(i), &s.Tolerations[i])
	}
	if len(s.NodeSelector) > 0 {
		c.labels(p.Child("nodeSelector"), s.NodeSelector)
	}
	for i, g := range s.ReadinessGates {
		c.name(p.Child("readinessGates").Index(i), "conditionType", string(g.ConditionType), validation.IsQualifiedName)
	}
	c.quantities(p.Child("overhead"), s.Overhead)
	c.resourceClaims(p.Child("resourceClaims"))
}

func (c *checker) specNames(p *field.Path) {
	s := &c.pod.Spec
	c.optional(p, "nodeName", s.NodeName, validation.IsDNS1123Subdomain)
	c.optional(p, "serviceAccountName", s.ServiceAccountName, validation.IsDNS1123Subdomain)
	c.optional(p, "priorityClassName", s.PriorityClassName, validation.IsDNS1123Subdomain)
	if s.RuntimeClassName != nil {
		c.name(p, "runtimeClassName", *s.RuntimeClassName, validation.IsDNS1123Subdomain)
	}
	for i := range s.ImagePullSecrets {
		c.name(p.Child("imagePullSecrets").Index(i), "name", s.ImagePullSecrets[i].Name, validation.IsDNS1123Subdomain)
	}
}

func (c *checker) hostnames(p *field.Path) {
	s := &c.pod.Spec
	c.optional(p, "hostname", s.Hostname, validation.IsDNS1123Label)
	c.optional(p, "subdomain", s.Subdomain, validation.IsDNS1123Label)
	if h := s.HostnameOverride; h != nil && *h != "" {
		c.optional(p, "hostnameOverride", *h, validation.IsDNS1123Subdomain)
		if len(*h) > maxHostnameLength {
			c.add(field.TooLong(p.Child("hostnameOverride"), "", maxHostnameLength))
		}
		if s.HostNetwork {
			c.forbidden(p, "hostnameOverride", "may not be set when hostNetwork is true")
		}
		if s.SetHostnameAsFQDN != nil && *s.SetHostnameAsFQDN {
			c.forbidden(p, "setHostnameAsFQDN", "may not be true when hostnameOverride is set")
		}
	}
	for i := range s.HostAliases {
		a := &s.HostAliases[i]
		ap := p.Child("hostAliases").Index(i)
		c.ip(ap, "ip", a.IP)
		for j, h := range a.Hostnames {
			c.name(ap.Child("hostnames").Index(j), "", h, validation.IsDNS1123Subdomain)
		}
	}
}

// ip checks a required IP address. Those of old style (leading zeros) pass, as
// they do in the API's old fields.
func (c *checker) ip(p *field.Path, child, value string) {
	if value == "" {
		c.required(p, child, "must be an IP address")
		return
	}
	for _, e := range validation.IsValidIPForLegacyField(at(p, child), value, false, nil) {
		c.add(e)
	}
}

func (c *checker) dns(p *field.Path) {
	s := &c.pod.Spec
	oneOf(c, p, "dnsPolicy", s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	d := s.DNSConfig
	if s.DNSPolicy == corev1.DNSNone && (d == nil || len(d.Nameservers) == 0) {
		c.required(p.Child("dnsConfig"), "nameservers", "must give at least one nameserver when dnsPolicy is None")
	}
	if d == nil {
		return
	}
	p = p.Child("dnsConfig")
	if len(d.Nameservers) > maxNameservers {
		c.add(field.TooMany(p.Child("nameservers"), len(d.Nameservers), maxNameservers))
	}
	for i, ns := range d.Nameservers {
		c.ip(p.Child("nameservers").Index(i), "", ns)
	}
	if len(d.Searches) > maxSearches {
		c.add(field.TooMany(p.Child("searches"), len(d.Searches), maxSearches))
	}
	total := max(len(d.Searches)-1, 0)
	for i, search := range d.Searches {
		total += len(search)
		if search == "." {
			continue
		}
		c.name(p.Child("searches").Index(i), "", strings.TrimSuffix(search, "."), validation.IsDNS1123SubdomainWithUnderscore)
	}
	if total > maxSearchBytes {
		c.add(field.TooLong(p.Child("searches"), "", maxSearchBytes))
	}
	for i := range d.Options {
		o := &d.Options[i]
		op := p.Child("options").Index(i)
		c.name(op, "name", o.Name, oneWord)
		if o.Value != nil {
			c.optional(op, "value", *o.Value, oneWord)
		}
	}
}

// oneWord is the rule for what becomes a word of a line in a file.
func oneWord(s string) []string {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return []string{"must not contain white space or control characters"}
	}
	return nil
}

func (c *checker) toleration(p *field.Path, t *corev1.Toleration) {
	c.optional(p, "key", t.Key, validation.IsQualifiedName)
	oneOf(c, p, "operator", t.Operator, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt)
	oneOf(c, p, "effect", t.Effect, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		c.invalid(p, "operator", string(t.Operator), "must be Exists when key is empty, which means any key")
	}
	if t.Operator == corev1.TolerationOpExists && t.Value != "" {
		c.invalid(p, "value", t.Value, "must be empty when operator is Exists")
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		c.invalid(p, "effect", string(t.Effect), "must be NoExecute when tolerationSeconds is set")
	}
}

func (c *checker) resourceClaims(p *field.Path) {
	claims := c.pod.Spec.ResourceClaims
	if len(claims) == 0 {
		return
	}
	c.claim = make(map[string]bool, len(claims))
	for i := range claims {
		r, rp := &claims[i], p.Index(i)
		c.name(rp, "name", r.Name, validation.IsDNS1123Label)
		c.unique(rp, "name", r.Name, c.claim)
		if (r.ResourceClaimName == nil) == (r.ResourceClaimTemplateName == nil) {
			c.invalid(rp, "", r.Name, "must have exactly one of resourceClaimName and resourceClaimTemplateName")
		}
		if r.ResourceClaimName != nil {
			c.name(rp, "resourceClaimName", *r.ResourceClaimName, validation.IsDNS1123Subdomain)
		}
		if r.ResourceClaimTemplateName != nil {
			c.name(rp, "resourceClaimTemplateName", *r.ResourceClaimTemplateName, validation.IsDNS1123Subdomain)
		}
	}
}
