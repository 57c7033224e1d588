// Package podspec says what a pod must be before any stage sees it: its
// defaults as the API server would set them, its validity, and what a pod needs
// that does not come from an API server at all.
//
// A source that reads pods from files does, per pod:
//
//	if err := podspec.ApplyStaticDefaults(pod, podspec.Static{Node: node, SourceName: "file", Origin: path, File: true}); err != nil {
//		return err
//	}
//	podspec.Default(pod)
//	if err := podspec.Validate(pod); err != nil {
//		return err // an *InvalidError that names every field
//	}
//
// Everything in this package is a pure function: no I/O, no clock, no state.
// Functions that take a pod to change it must own it; all others only read.
package podspec
