package images

import (
	"fmt"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// NormalizeName returns the name under which the runtime is asked for an image:
// as written, with ":latest" added when there is neither tag nor digest. Short
// names are not completed; that is the runtime's business. A name that is no
// image reference is an error.
func NormalizeName(image string) (string, error) {
	name, _, err := parseName(image)
	return name, err
}

// parseName returns what NormalizeName does, and the repository's full name, by
// which credentials are found: "docker.io/library/busybox" for "busybox".
func parseName(image string) (name, repository string, err error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", "", fmt.Errorf("image name %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		image += ":latest"
	}
	return image, named.Name(), nil
}

// DefaultPolicy returns the pull policy of a container that names none: Always
// for the tag latest or no tag, else IfNotPresent. A name that is no image
// reference is IfNotPresent.
func DefaultPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if t, ok := named.(reference.Tagged); (ok && t.Tag() == "latest") || reference.IsNameOnly(named) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
