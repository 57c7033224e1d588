package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/source/manifest"
)

// entry is an object, one of the two kinds, and where it stands.
type entry struct {
	place     manifest.Place
	secret    *corev1.Secret
	configMap *corev1.ConfigMap
}

func (e entry) key() key {
	if e.secret != nil {
		return key{kindSecret, e.secret.Namespace, e.secret.Name}
	}
	return key{kindConfigMap, e.configMap.Namespace, e.configMap.Name}
}

// page is what is known of one file. A nil page is that of a new file.
type page struct {
	entries  []entry
	errs     []error
	warnings []manifest.Warning
}

// failed is the page after the file could not be read.
func (p *page) failed(err error) *page {
	n := &page{errs: []error{err}}
	if p != nil {
		n.entries = p.entries
	}
	return n
}

// next is the page after the file was read again. While part of the file is at
// fault all objects that were not replaced stay: any of them may be that part.
func (p *page) next(file string, data []byte) *page {
	n := &page{}
	objs, faults := manifest.Read(file, data)
	for _, f := range faults {
		n.errs = append(n.errs, f)
	}
	replaced := map[key]bool{}
	for i := range objs {
		o := &objs[i]
		e, warnings, ok, err := decode(o)
		n.warnings = append(n.warnings, warnings...)
		switch {
		case err != nil:
			n.errs = append(n.errs, err)
		case ok:
			n.entries = append(n.entries, e)
			replaced[e.key()] = true
		}
	}
	if p == nil || len(n.errs) == 0 {
		return n
	}
	for _, e := range p.entries {
		if !replaced[e.key()] {
			n.entries = append(n.entries, e)
		}
	}
	return n
}

// decode makes an entry of an object; ok is false for a pod.
func decode(o *manifest.Object) (e entry, warnings []manifest.Warning, ok bool, err error) {
	e.place = o.Place
	switch {
	case o.APIVersion != "v1":
		err = fmt.Errorf("%w: %w", manifest.ErrKind, errKind)
	case o.Kind == "Pod":
		return e, nil, false, nil
	case o.Kind == kindSecret:
		e.secret = &corev1.Secret{}
		if warnings, err = o.Decode(e.secret); err != nil {
			return e, nil, false, err
		}
		finishSecret(e.secret)
		err = checkSecret(e.secret)
	case o.Kind == kindConfigMap:
		e.configMap = &corev1.ConfigMap{}
		if warnings, err = o.Decode(e.configMap); err != nil {
			return e, nil, false, err
		}
		finishConfigMap(e.configMap)
		err = checkConfigMap(e.configMap)
	default:
		err = fmt.Errorf("%w: %w", manifest.ErrKind, errKind)
	}
	if err != nil {
		return e, warnings, false, &manifest.DecodeError{Place: o.Place, Err: err}
	}
	return e, warnings, true, nil
}
