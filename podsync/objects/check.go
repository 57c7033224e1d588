package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxData is the API's limit for all values of one object together, in bytes.
const maxData = 1 << 20

// InvalidError says why an object cannot be used. It shows no value.
type InvalidError struct {
	// Kind, Namespace and Name name the object.
	Kind, Namespace, Name string
	// Errs are the faults, at least one.
	Errs field.ErrorList
}

// Error names the object and every fault.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q is invalid: %v", e.Kind, e.Namespace+"/"+e.Name, e.Errs.ToAggregate())
}

// checkSecret checks what becomes files and environment variables: names, keys
// and size, and that a typed pull secret has what its type says.
func checkSecret(s *corev1.Secret) error {
	errs := checkMeta(&s.ObjectMeta)
	size := 0
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, checkKey(k)...)
		size += len(s.Data[k])
	}
	required := map[corev1.SecretType]string{
		corev1.SecretTypeDockerConfigJson: corev1.DockerConfigJsonKey,
		corev1.SecretTypeDockercfg:        corev1.DockerConfigKey,
	}[s.Type]
	if _, ok := s.Data[required]; required != "" && !ok {
		errs = append(errs, field.Required(field.NewPath("data").Key(required), "a secret of this type has it"))
	}
	return invalid(kindSecret, &s.ObjectMeta, size, errs)
}

func checkConfigMap(c *corev1.ConfigMap) error {
	errs := checkMeta(&c.ObjectMeta)
	size := 0
	for _, k := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, checkKey(k)...)
		size += len(c.Data[k])
		if _, twice := c.BinaryData[k]; twice {
			errs = append(errs, field.Duplicate(field.NewPath("binaryData"), k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, checkKey(k)...)
		size += len(c.BinaryData[k])
	}
	return invalid(kindConfigMap, &c.ObjectMeta, size, errs)
}

func invalid(kind string, m *metav1.ObjectMeta, size int, errs field.ErrorList) error {
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", maxData))
	}
	if len(errs) == 0 {
		return nil
	}
	const most = 16
	if len(errs) > most {
		errs = errs[:most]
	}
	return &InvalidError{kind, shorten(m.Namespace), shorten(m.Name), errs}
}

func checkMeta(m *metav1.ObjectMeta) (errs field.ErrorList) {
	p := field.NewPath("metadata")
	if m.Name == "" {
		errs = append(errs, field.Required(p.Child("name"), ""))
	} else if msgs := validation.IsDNS1123Subdomain(m.Name); len(msgs) > 0 {
		errs = append(errs, field.Invalid(p.Child("name"), shorten(m.Name), strings.Join(msgs, ", and ")))
	}
	if msgs := validation.IsDNS1123Label(m.Namespace); len(msgs) > 0 {
		errs = append(errs, field.Invalid(p.Child("namespace"), shorten(m.Namespace), strings.Join(msgs, ", and ")))
	}
	return errs
}

// checkKey checks a key, which may become a file's name.
func checkKey(k string) (errs field.ErrorList) {
	if msgs := validation.IsConfigMapKey(k); len(msgs) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("data"), shorten(k), strings.Join(msgs, ", and ")))
	}
	return errs
}

func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
