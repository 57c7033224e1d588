package images

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	o Options
}

// New makes a Puller.
func New(o Options) *Puller { return &Puller{o: o} }

// Ensure makes the image of a container present and returns it. It fails with
// an *Error whose Reason is what the container's waiting state should say. While
// the image is in backoff it makes no runtime call but the presence check. It
// blocks while it pulls; the end of ctx ends the wait, and the pull too when no
// other pod waits for the same.
func (p *Puller) Ensure(ctx context.Context, r Request) (Image, error) { return Image{}, nil }

// Prefetch begins to ensure the images of a pod's containers in the background,
// so that they come while the sandbox is made. Images asked for twice are
// pulled once. The caller must Close it; ctx ends it too.
func (p *Puller) Prefetch(ctx context.Context, reqs []Request) *Prefetch { return &Prefetch{} }

// Prefetch is a set of pulls in flight for one pod.
type Prefetch struct{}

// Ensure returns the result of the prefetched pull of r's container and image,
// waiting for it if need be, and does what Puller.Ensure does when there is
// none. A result is handed out once per container. Safe on a nil Prefetch made
// by nobody: use Puller.Ensure there.
func (f *Prefetch) Ensure(ctx context.Context, r Request) (Image, error) { return Image{}, nil }

// Close gives up what nobody has asked for yet and waits until nothing of it
// runs. It may be called more than once.
func (f *Prefetch) Close() {}

// Forget drops the backoff of a pod that is gone.
func (p *Puller) Forget(uid types.UID) {}

// Reset drops the backoff of one image of a pod, so that the next Ensure pulls
// at once: for a pull secret that changed, or an operator's wish. image "" is
// every image of the pod.
func (p *Puller) Reset(uid types.UID, image string) {}

// BackoffState is the backoff of one image of one pod, for a store.
type BackoffState struct {
	UID     types.UID     `json:"uid"`
	Image   string        `json:"image"`
	Delay   time.Duration `json:"delay"`
	Until   time.Time     `json:"until"`
	Reason  string        `json:"reason"`
	Message string        `json:"message"`
}

// State returns the backoffs in force, sorted by UID and image.
func (p *Puller) State() []BackoffState { return nil }

// Restore puts back what State returned before a restart. Entries that are too
// old, or that wait longer than MaxBackoff from now, are corrected or dropped.
func (p *Puller) Restore(states []BackoffState) {}
