package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// envFields are the fields of a pod that its environment can show. Labels and
// annotations are also possible one by one, as metadata.labels['key'].
func envFields() []string {
	return []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
}

// volumeFields are those that a downward API volume can show.
func volumeFields() []string {
	return []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
}

func (c *checker) env(p *field.Path, ct *corev1.Container) {
	for i := range ct.EnvFrom {
		e, ep := &ct.EnvFrom[i], p.Child("envFrom").Index(i)
		c.optional(ep, "prefix", e.Prefix, validation.IsRelaxedEnvVarName)
		switch {
		case e.ConfigMapRef != nil && e.SecretRef != nil:
			c.forbidden(ep, "", "must not have both configMapRef and secretRef")
		case e.ConfigMapRef != nil:
			c.name(ep.Child("configMapRef"), "name", e.ConfigMapRef.Name, validation.IsDNS1123Subdomain)
		case e.SecretRef != nil:
			c.name(ep.Child("secretRef"), "name", e.SecretRef.Name, validation.IsDNS1123Subdomain)
		default:
			c.required(ep, "", "must have a configMapRef or a secretRef")
		}
	}
	for i := range ct.Env {
		e, ep := &ct.Env[i], p.Child("env").Index(i)
		c.name(ep, "name", e.Name, validation.IsRelaxedEnvVarName)
		if e.ValueFrom == nil {
			continue
		}
		// The value may be a secret that somebody wrote in the wrong place: it is not shown.
		if e.Value != "" {
			c.forbidden(ep, "valueFrom", "may not be set when value is not empty")
		}
		c.exactlyOne(ep.Child("valueFrom"), "source", e.ValueFrom)
		c.envSource(ep.Child("valueFrom"), e.ValueFrom)
	}
}

func (c *checker) envSource(p *field.Path, s *corev1.EnvVarSource) {
	if r := s.FieldRef; r != nil {
		c.fieldRef(p.Child("fieldRef"), r, envFields())
	}
	if r := s.ResourceFieldRef; r != nil {
		c.resourceRef(p.Child("resourceFieldRef"), r, false)
	}
	if r := s.ConfigMapKeyRef; r != nil {
		c.name(p.Child("configMapKeyRef"), "name", r.Name, validation.IsDNS1123Subdomain)
		c.name(p.Child("configMapKeyRef"), "key", r.Key, validation.IsConfigMapKey)
	}
	if r := s.SecretKeyRef; r != nil {
		c.name(p.Child("secretKeyRef"), "name", r.Name, validation.IsDNS1123Subdomain)
		c.name(p.Child("secretKeyRef"), "key", r.Key, validation.IsConfigMapKey)
	}
	if r := s.FileKeyRef; r != nil {
		fp := p.Child("fileKeyRef")
		if v := c.volume[r.VolumeName]; v == nil {
			c.add(field.NotFound(fp.Child("volumeName"), shorten(r.VolumeName)))
		} else if v.EmptyDir == nil {
			c.invalid(fp, "volumeName", r.VolumeName, "must be an emptyDir volume")
		}
		c.volumeFile(fp, "path", r.Path)
		c.name(fp, "key", r.Key, validation.IsRelaxedEnvVarName)
	}
}

func (c *checker) fieldRef(p *field.Path, r *corev1.ObjectFieldSelector, fields []string) {
	if r.APIVersion != "v1" {
		c.invalid(p, "apiVersion", r.APIVersion, "must be v1")
	}
	if slices.Contains(fields, r.FieldPath) {
		return
	}
	base, key, ok := SplitFieldPath(r.FieldPath)
	switch {
	case ok && base == "metadata.labels":
		c.name(p, "fieldPath", key, validation.IsQualifiedName)
	case ok && base == "metadata.annotations":
		c.name(p, "fieldPath", strings.ToLower(key), validation.IsQualifiedName)
	default:
		all := append(fields, "metadata.labels['<key>']", "metadata.annotations['<key>']")
		oneOf(c, p, "fieldPath", r.FieldPath, all...)
	}
}

// SplitFieldPath splits a field path with a subscript, as in
// metadata.labels['app'], into the path before it and the key. ok is false when
// there is none.
func SplitFieldPath(fieldPath string) (base, key string, ok bool) {
	rest, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return fieldPath, "", false
	}
	if base, key, ok = strings.Cut(rest, "['"); !ok || base == "" {
		return fieldPath, "", false
	}
	return base, key, true
}

func (c *checker) resourceRef(p *field.Path, r *corev1.ResourceFieldSelector, containerRequired bool) {
	switch {
	case r.ContainerName == "" && containerRequired:
		c.required(p, "containerName", "")
	case r.ContainerName != "" && !c.hasContainer(r.ContainerName):
		c.add(field.NotFound(p.Child("containerName"), shorten(r.ContainerName)))
	}
	list, name, _ := strings.Cut(r.Resource, ".")
	known := name == string(corev1.ResourceCPU) || name == string(corev1.ResourceMemory) || name == string(corev1.ResourceEphemeralStorage) ||
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	if !known || list != "limits" && list != "requests" {
		oneOf(c, p, "resource", r.Resource, "limits.cpu", "limits.memory", "limits.ephemeral-storage", "limits.hugepages-<size>",
			"requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.hugepages-<size>")
	}
	if r.Divisor.Sign() < 0 {
		c.invalid(p, "divisor", r.Divisor.String(), "must not be negative")
	}
}

// hasContainer tells whether the pod has a regular or init container of the name.
func (c *checker) hasContainer(name string) bool {
	for _, list := range [][]corev1.Container{c.pod.Spec.Containers, c.pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return true
			}
		}
	}
	return false
}
