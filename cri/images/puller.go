package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
)

// Service is the part of cri-api's ImageManagerService that this package calls;
// any ImageManagerService fits. Safe for concurrent use.
type Service interface {
	// ImageStatus returns the image, with a nil Image when it is not there.
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	// PullImage pulls the image and returns its reference.
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
}

// Defaults of Options.
const (
	DefaultMaxParallel    = 5
	DefaultInitialBackoff = 10 * time.Second
	DefaultMaxBackoff     = 300 * time.Second
)

// Options configure a Puller.
type Options struct {
	// Service is the runtime's image service; required.
	Service Service
	// Node are the node's own credentials, tried after those of the pod; nil for
	// none.
	Node *Keyring
	// MaxParallel bounds the pulls in flight on the node; 0 is DefaultMaxParallel.
	MaxParallel int
	// InitialBackoff and MaxBackoff bound the time between tries of an image that
	// cannot be pulled; 0 is the default, 10 s and 300 s.
	InitialBackoff, MaxBackoff time.Duration
	// PullTimeout bounds one pull; 0 is no bound besides the runtime's own, which
	// watches for pulls that make no progress. A pull over a thin link may well
	// take hours.
	PullTimeout time.Duration
	// Clock is the clock; nil is the real one.
	Clock clock.PassiveClock
	// Logger gets debug lines; nil discards them.
	Logger *slog.Logger
	// Bus is told podsync.TopicImagePulled when a pull ends; nil for none.
	Bus *podsync.Bus
}

// EventFunc records an event about the pod; podsync.Sync.Event is one.
type EventFunc func(eventType, reason, format string, args ...any)

// Request asks for the image of one container of a pod.
type Request struct {
	// Pod is the pod; required.
	Pod *corev1.Pod
	// Container is the container's name, for messages; an image volume gives the
	// volume's name.
	Container string
	// Image is the image as the spec has it.
	Image string
	// Policy is the pull policy; "" is the default by the image's tag.
	Policy corev1.PullPolicy
	// Secrets are the pull secrets found, in the order of the spec.
	Secrets []*corev1.Secret
	// SandboxConfig is handed to the runtime; nil is allowed.
	SandboxConfig *runtimeapi.PodSandboxConfig
	// RuntimeHandler is the pod's runtime handler; "" is the default one.
	RuntimeHandler string
	// Events records events; nil drops them.
	Events EventFunc
}

// Image is an image that is present on the node. It converts to config.Image.
type Image struct {
	// Ref is the runtime's reference to the image.
	Ref string
	// UID is the image's own user when it is numeric, nil when it is not.
	UID *int64
	// Username is the image's own user when it is a name.
	Username string
}

// Puller makes images present. Safe for concurrent use; make one per runtime.
type Puller struct {
	o     Options
	slots chan struct{}

	mu       sync.Mutex
	backoffs map[backoffKey]*backoff
	flights  map[flightKey]*flight
}

// New makes a Puller.
func New(o Options) *Puller {
	if o.MaxParallel <= 0 {
		o.MaxParallel = DefaultMaxParallel
	}
	if o.InitialBackoff <= 0 {
		o.InitialBackoff = DefaultInitialBackoff
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = DefaultMaxBackoff
	}
	o.InitialBackoff = min(o.InitialBackoff, o.MaxBackoff)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Puller{
		o: o, slots: make(chan struct{}, o.MaxParallel),
		backoffs: map[backoffKey]*backoff{}, flights: map[flightKey]*flight{},
	}
}

// Ensure makes the image of a container present and returns it. It fails with
// an *Error whose Reason is what the container's waiting state should say, or
// with ctx's error. While the image is in backoff it makes no runtime call but
// the presence check. It blocks while it pulls; the end of ctx ends the wait,
// and the pull too when no other pod waits for the same.
func (p *Puller) Ensure(ctx context.Context, r Request) (Image, error) {
	name, repository, err := parseName(r.Image)
	if err != nil {
		r.event(corev1.EventTypeWarning, "InspectFailed", "Failed to apply default image tag %q: %v", r.Image, err)
		return Image{}, p.fail(r, ReasonInvalidImageName, p.o.MaxBackoff, err)
	}
	spec := &runtimeapi.ImageSpec{Image: name, Annotations: r.Pod.Annotations, RuntimeHandler: r.RuntimeHandler}
	policy := r.Policy
	if policy == "" {
		policy = DefaultPolicy(r.Image)
	}
	if policy != corev1.PullAlways {
		img, ok, err := p.present(ctx, r, spec)
		if err != nil {
			return Image{}, err
		}
		if ok {
			p.Reset(r.Pod.UID, r.Image)
			r.event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", r.Image)
			return img, nil
		}
	}
	if policy == corev1.PullNever {
		r.event(corev1.EventTypeWarning, ReasonErrImageNeverPull, "Container image %q is not present with pull policy of Never", r.Image)
		return Image{}, p.fail(r, ReasonErrImageNeverPull, p.o.InitialBackoff,
			fmt.Errorf("container image %q is not present with pull policy of Never", r.Image))
	}
	return p.pull(ctx, r, spec, repository)
}

// present asks the runtime for the image.
func (p *Puller) present(ctx context.Context, r Request, spec *runtimeapi.ImageSpec) (Image, bool, error) {
	resp, err := p.o.Service.ImageStatus(ctx, spec, false)
	if ctx.Err() != nil {
		return Image{}, false, ctx.Err()
	}
	if err != nil {
		text := status.Convert(err).Message()
		r.event(corev1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %s", r.Image, text)
		return Image{}, false, p.fail(r, ReasonImageInspectError, p.o.InitialBackoff, fmt.Errorf("inspect image %q: %w", r.Image, err))
	}
	img := resp.GetImage()
	if img.GetId() == "" {
		return Image{}, false, nil
	}
	return convertImage(img.GetId(), img), true, nil
}

// convertImage takes over what a container needs to know. An image that names
// no user runs as root.
func convertImage(ref string, img *runtimeapi.Image) Image {
	out := Image{Ref: ref}
	switch uid := int64(0); {
	case img.GetUid() != nil:
		uid = img.GetUid().GetValue()
		out.UID = &uid
	case img.GetUsername() != "":
		out.Username = img.GetUsername()
	default:
		out.UID = &uid
	}
	return out
}

// pull pulls the image unless it is in backoff.
func (p *Puller) pull(ctx context.Context, r Request, spec *runtimeapi.ImageSpec, repository string) (Image, error) {
	k := backoffKey{r.Pod.UID, r.Image}
	start := p.o.Clock.Now()
	before, waiting := p.current(k, start)
	if waiting {
		r.event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", r.Image)
		return Image{}, p.fail(r, ReasonImagePullBackOff, before.until.Sub(start),
			fmt.Errorf("back-off pulling image %q: %s: %s", r.Image, before.reason, before.message))
	}
	keyring, err := NewKeyring(r.Secrets)
	if err != nil {
		// No pull was tried: it is tried soon after the secret was mended.
		r.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", r.Image, err)
		return Image{}, p.fail(r, ReasonErrImagePull, p.o.InitialBackoff, fmt.Errorf("pull image %q: %w", r.Image, err))
	}
	creds := append(keyring.lookup(repository), p.o.Node.lookup(repository)...)
	r.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", r.Image)
	ref, took, errs := p.tryAll(ctx, r, spec, creds)
	if ctx.Err() != nil && ref == "" {
		return Image{}, ctx.Err()
	}
	defer p.o.Bus.Publish(podsync.TopicImagePulled, r.Pod.UID)
	if ref == "" {
		cause, reason := joinPull(errs), reasonOfPull(errs)
		r.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %v", r.Image, cause)
		after := p.failed(k, before, reason, cause.Error())
		return Image{}, p.fail(r, reason, after, fmt.Errorf("pull image %q: %w", r.Image, cause))
	}
	p.Reset(r.Pod.UID, r.Image)
	resp, err := p.o.Service.ImageStatus(ctx, spec, false)
	if ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	if err == nil && resp.GetImage() == nil {
		err = errors.New("the runtime has pulled it and does not know it")
	}
	if err != nil {
		r.event(corev1.EventTypeWarning, "InspectFailed", "Failed to inspect image %q: %s", r.Image, status.Convert(err).Message())
		return Image{}, p.fail(r, ReasonImageInspectError, p.o.InitialBackoff, fmt.Errorf("inspect image %q: %w", r.Image, err))
	}
	total := p.o.Clock.Since(start).Truncate(time.Millisecond)
	r.event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
		r.Image, took.Truncate(time.Millisecond), total, resp.GetImage().GetSize())
	p.o.Logger.Debug("image pulled", "pod", podsync.Ref(r.Pod), "container", r.Container, "image", r.Image, "took", total)
	return convertImage(ref, resp.GetImage()), nil
}

// tryAll tries the credentials in order until one succeeds; without any it
// tries anonymously, once. ref is "" when none did.
func (p *Puller) tryAll(ctx context.Context, r Request, spec *runtimeapi.ImageSpec, creds []Credential) (ref string, took time.Duration, errs []error) {
	tries := make([]*Credential, 0, max(len(creds), 1))
	for i := range creds {
		tries = append(tries, &creds[i])
	}
	if len(tries) == 0 {
		tries = append(tries, nil)
	}
	for _, c := range tries {
		f, err := p.share(ctx, spec, c, r.SandboxConfig)
		if err != nil {
			return "", 0, nil // ctx has ended
		}
		if f.err == nil && f.ref != "" {
			return f.ref, f.took, nil
		}
		err = f.err
		if err == nil {
			err = errors.New("the runtime gave no reference to the image")
		}
		err = newPullError(err, creds)
		if c != nil {
			err = fmt.Errorf("with the %s: %w", c, err)
		}
		errs = append(errs, err)
	}
	return "", 0, errs
}

// fail makes the error of a request.
func (p *Puller) fail(r Request, reason string, after time.Duration, err error) *Error {
	p.o.Logger.Debug("image not present", "pod", podsync.Ref(r.Pod), "container", r.Container, "image", r.Image, "reason", reason)
	return &Error{Image: r.Image, reason: reason, after: after, err: err}
}

func (r *Request) event(eventType, reason, format string, args ...any) {
	if r.Events != nil {
		r.Events(eventType, reason, format, args...)
	}
}

// isCanceled tells whether an error is the end of a context.
func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
