package images

import corev1 "k8s.io/api/core/v1"

// NormalizeName returns the name under which the runtime is asked for an image:
// as written, with ":latest" added when there is neither tag nor digest. Short
// names are not completed; that is the runtime's business. A name that is no
// image reference is an error.
func NormalizeName(image string) (string, error) { return "", nil }

// DefaultPolicy returns the pull policy of a container that names none: Always
// for the tag latest or no tag, else IfNotPresent.
func DefaultPolicy(image string) corev1.PullPolicy { return "" }
