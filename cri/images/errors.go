package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// Reasons of an Error, the kubelet's own.
const (
	// ReasonErrImagePull: a pull was tried and failed.
	ReasonErrImagePull = "ErrImagePull"
	// ReasonImagePullBackOff: an earlier pull failed and its backoff runs.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonErrImageNeverPull: the image is absent and the policy is Never.
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	// ReasonInvalidImageName: the name is no image reference.
	ReasonInvalidImageName = "InvalidImageName"
	// ReasonImageInspectError: the runtime could not say whether it has the image.
	ReasonImageInspectError = "ImageInspectError"
	// ReasonRegistryUnavailable: the runtime could not reach the registry.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonSignatureValidationFailed: the image's signature is not accepted.
	ReasonSignatureValidationFailed = "SignatureValidationFailed"
)

// Error says why an image is not there. Its text shows no credential, and nor
// does what it wraps.
type Error struct {
	// Image is the image as the spec has it.
	Image string

	reason string
	after  time.Duration
	err    error
}

// Error returns the text for people.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Reason returns the reason for the container's waiting state.
func (e *Error) Reason() string { return e.reason }

// RetryAfter returns the time until another try makes sense.
func (e *Error) RetryAfter() time.Duration { return e.after }

// Pulled tells whether the error comes of a pull that was tried just now, as
// against one that was not tried at all.
func (e *Error) Pulled() bool {
	switch e.reason {
	case ReasonErrImagePull, ReasonRegistryUnavailable, ReasonSignatureValidationFailed:
		return true
	default:
		return false
	}
}

// pullError is a runtime's error without what it may quote of a credential. It
// keeps the gRPC code and which of CRI's own errors it is, and not the original.
type pullError struct {
	text string
	code codes.Code
	kind error
}

func (e *pullError) Error() string              { return e.text }
func (e *pullError) Is(target error) bool       { return e.kind != nil && target == e.kind }
func (e *pullError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// newPullError cleans an error of PullImage.
func newPullError(err error, used []Credential) *pullError {
	st := status.Convert(err)
	text := st.Message()
	e := &pullError{code: st.Code(), kind: criKind(err, text)}
	if e.kind != nil {
		text = strings.TrimPrefix(strings.TrimPrefix(text, e.kind.Error()), ": ")
	}
	e.text = redact(text, used)
	if e.text == "" {
		e.text = e.code.String()
	}
	return e
}

// criKind tells which of CRI's own errors err is. gRPC carries no error values,
// so that CRI makes the name of the error the first word of the status message;
// it only chooses the word that the pod's status shows.
func criKind(err error, message string) error {
	word, _, _ := strings.Cut(message, ":")
	for _, kind := range [...]error{crierrors.ErrRegistryUnavailable, crierrors.ErrSignatureValidationFailed} {
		if errors.Is(err, kind) || word == kind.Error() {
			return kind
		}
	}
	return nil
}

// redact takes secret values out of a text.
func redact(text string, used []Credential) string {
	for _, c := range used {
		a := c.auth
		values := []string{a.GetPassword(), a.GetIdentityToken(), a.GetRegistryToken(), a.GetAuth()}
		if a.GetPassword() != "" {
			values = append(values, base64.StdEncoding.EncodeToString([]byte(a.GetUsername()+":"+a.GetPassword())))
		}
		for _, v := range values {
			// Taking out shorter ones would leave riddles, and protects nothing.
			if len(v) >= 3 {
				text = strings.ReplaceAll(text, v, "***")
			}
		}
	}
	return text
}

// reasonOfPull returns the reason for a failed pull: the last error's, for
// earlier credentials may just have been the wrong ones.
func reasonOfPull(errs []error) string {
	last := errs[len(errs)-1]
	switch {
	case errors.Is(last, crierrors.ErrRegistryUnavailable):
		return ReasonRegistryUnavailable
	case errors.Is(last, crierrors.ErrSignatureValidationFailed):
		return ReasonSignatureValidationFailed
	default:
		return ReasonErrImagePull
	}
}

// joinPull makes one error of those of all credentials.
func joinPull(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return &manyErrors{errs}
}

// manyErrors is errors.Join on one line.
type manyErrors struct{ errs []error }

func (e *manyErrors) Unwrap() []error { return e.errs }
func (e *manyErrors) Error() string {
	parts := make([]string, len(e.errs))
	for i, err := range e.errs {
		parts[i] = err.Error()
	}
	return fmt.Sprintf("%d credentials failed: %s", len(parts), strings.Join(parts, "; "))
}
