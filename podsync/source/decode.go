package source

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync/source/manifest"
)

// DecodeError says what is wrong with one document of a manifest. It names the
// file, the document and, where there is one, the field.
type DecodeError = manifest.DecodeError

// Warning is something odd in a document that was read all the same: an
// unknown field, a field given twice, an object that is no pod and belongs to
// package objects.
type Warning = manifest.Warning

// Decode reads the pods of one manifest, YAML or JSON: one document or several,
// each a Pod, a PodList or a List. file only goes into messages. The pods are
// as written: not defaulted, not validated.
//
// Unknown fields are ignored with a Warning. ConfigMaps and Secrets are skipped
// with a Warning of kind manifest.Skipped, because a directory may hold them
// beside the pods that use them. Anything else is an error. err joins one
// *DecodeError per bad document; the pods of the good ones are returned with it.
func Decode(file string, data []byte) (pods []*corev1.Pod, warnings []Warning, err error) {
	entries, warnings, errs := decode(file, data)
	for _, e := range entries {
		pods = append(pods, e.pod)
	}
	return pods, warnings, errors.Join(errs...)
}

// entry is a pod and where it stands.
type entry struct {
	pod   *corev1.Pod
	place manifest.Place
}

func decode(file string, data []byte) (entries []entry, warnings []Warning, errs []error) {
	objs, faults := manifest.Read(file, data)
	for _, f := range faults {
		errs = append(errs, f)
	}
	for i := range objs {
		o := &objs[i]
		switch {
		case o.APIVersion == "v1" && o.Kind == "Pod":
			pod := &corev1.Pod{}
			w, err := o.Decode(pod)
			warnings = append(warnings, w...)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			pod.TypeMeta = metav1.TypeMeta{} // as typed clients have it
			entries = append(entries, entry{pod, o.Place})
		case o.APIVersion == "v1" && (o.Kind == "ConfigMap" || o.Kind == "Secret"):
			warnings = append(warnings, o.Skip("a directory of objects"))
		case o.Kind == "Pod":
			errs = append(errs, &DecodeError{Place: o.Place, Field: "apiVersion", Err: fmt.Errorf("%w: pods are read as v1, not as %q", manifest.ErrKind, shorten(o.APIVersion))})
		default:
			errs = append(errs, &DecodeError{Place: o.Place, Field: "kind", Err: fmt.Errorf("%w: a %s of %q makes no pods here; only Pod, PodList and List of v1 do",
				manifest.ErrKind, shorten(o.Kind), shorten(o.APIVersion))})
		}
	}
	return entries, warnings, errs
}

// shorten keeps a hostile value out of the log.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
