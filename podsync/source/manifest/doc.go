// Package manifest reads files of Kubernetes objects and follows a directory of
// them. The sources of pods and of other objects are built on it, and a site's
// own can be.
//
// Read splits one file into its objects: YAML or JSON, one or many documents,
// lists. Every document is either an object or an error that names it, so that
// nothing is dropped in silence, and one bad document does not lose the others.
//
//	objs, errs := manifest.Read("web.yaml", data)
//	for _, o := range objs {
//		warnings, err := o.Decode(&pod) // unknown fields are warnings
//	}
//
// Dir tells of the files that changed, as soon as they are complete.
//
// Files may hold secrets: no text of this package shows a value, only names of
// fields, kinds and objects.
package manifest
