// Package podspec says what a pod must be before any stage sees it: its
// defaults, as the API server would set them, and its validity.
package podspec
