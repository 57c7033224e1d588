package images

import "time"

// Reasons of an Error, the kubelet's own.
const (
	ReasonErrImagePull              = "ErrImagePull"
	ReasonImagePullBackOff          = "ImagePullBackOff"
	ReasonErrImageNeverPull         = "ErrImageNeverPull"
	ReasonInvalidImageName          = "InvalidImageName"
	ReasonImageInspectError         = "ImageInspectError"
	ReasonRegistryUnavailable       = "RegistryUnavailable"
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
func (e *Error) Error() string { return "" }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Reason returns the reason for the container's waiting state.
func (e *Error) Reason() string { return e.reason }

// RetryAfter returns the time until another try makes sense.
func (e *Error) RetryAfter() time.Duration { return e.after }
