// Package plugin says what a kind of volume is: the small interface behind
// which emptyDir, secret and the others stand, and that a site implements for a
// kind of its own. It sets up one volume of one pod in a directory of its own,
// and takes it down again knowing no more than that directory. Package
// volumestest holds the conformance suite for it.
package plugin

import (
	"context"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/internal/safefs"
)

// Plugin is one kind of volume. One value serves every pod: its methods are
// called at once for different volumes, never twice at a time for one.
type Plugin interface {
	// Name is the qualified name of the kind, such as "kubernetes.io/empty-dir".
	// With "/" replaced by "~" it names a directory below pods/<uid>/volumes, by
	// which the plugin is found again after a restart; it must not change.
	Name() string
	// CanSupport tells whether the volume is of this kind. It looks at the spec
	// alone; the first plugin that says yes gets the volume.
	CanSupport(v *corev1.Volume) bool
	// Attributes says how a volume of this kind is to be treated.
	Attributes(v *corev1.Volume) Attributes
	// SetUp brings the volume up, or up to date, and returns where it is. It is
	// called again after a crash or an error at any point and then does only
	// what is missing; a volume in use loses nothing. It reads API objects
	// through r.Objects only: what it read decides when it is called again. A
	// required object that is missing is an error that matches
	// podsync.ErrNotFound.
	SetUp(ctx context.Context, r *Request) (Mounted, error)
	// TearDown removes what SetUp left at r.Dir and r.MetaDir: it unmounts r.Dir,
	// then deletes. Mounts below r.Dir are gone by then. It is idempotent, knows
	// nothing of the pod's spec, and must not delete through a mount or link
	// (see RemoveAll).
	TearDown(ctx context.Context, r *Removal) error
}

// Keeper is a Plugin whose volumes stay usable while SetUp cannot bring them up
// to date: content that was written before a restart, say. Plugins without it
// have no usable volume until SetUp succeeded once in this process.
type Keeper interface {
	// Usable tells whether an earlier SetUp, maybe by an earlier process, was
	// completed and its result still stands. It returns the volume as SetUp would.
	Usable(r *Request) (Mounted, bool)
}

// Attributes say how volumes of a kind are treated.
type Attributes struct {
	// ReadOnly: containers get the volume read-only whatever their mount says.
	ReadOnly bool
	// FSGroup: the pod's fsGroup applies; Request.FSGroup is then set.
	FSGroup bool
	// SELinux: the runtime may relabel the volume.
	SELinux bool
	// Refresh: SetUp is also called when the pod's labels, annotations or spec
	// changed. When an object it read changed, it is called in any case.
	Refresh bool
}

// Mounted is a volume that is up.
type Mounted struct {
	// Path is the directory, or for hostPath also the file or device, that
	// containers get.
	Path string
	// RefreshAt is when SetUp is to be called again even though nothing was seen
	// to change, for what expires. Zero is never.
	RefreshAt time.Time
	// Groups are ids of groups that containers need to use the volume.
	Groups []int64
}

// Request asks for one volume of one pod. Its pod and volume are read-only.
type Request struct {
	// Pod is the pod, defaulted and validated.
	Pod *corev1.Pod
	// Volume is the volume in the pod's spec.
	Volume *corev1.Volume
	// Dir is the volume's own directory, pods/<uid>/volumes/<plugin>/<volume>. It
	// may not exist yet, and neither may its parent: see MakeDirs.
	Dir string
	// MetaDir is for what the plugin notes about the volume,
	// pods/<uid>/plugins/<plugin>/<volume>. The same holds for it.
	MetaDir string
	// FSGroup is the group that is to own the volume; nil when the pod names none
	// or the plugin does not support it.
	FSGroup *int64
	// Objects gives the API objects. Never nil.
	Objects podsync.Objects
	// Host is the node around the volume.
	Host Host
}

// Removal asks to take down one volume that was found on the disk.
type Removal struct {
	// UID is the pod's.
	UID types.UID
	// Volume is the volume's name.
	Volume string
	// Dir and MetaDir are those of the Request.
	Dir, MetaDir string
	// Host is the node around the volume.
	Host Host
}

// Host is what a plugin may use of the node. The Manager sets every field.
type Host struct {
	// Mounter mounts and unmounts.
	Mounter mount.Interface
	// Allocatable returns what pods may use of the node; it may be empty.
	Allocatable func() corev1.ResourceList
	// Tokens makes service account tokens; nil where there is no API server.
	Tokens TokenSource
	// Clock tells the time.
	Clock clock.PassiveClock
	// Logger is bound to the pod and the volume.
	Logger *slog.Logger
	// Unprivileged: this process can neither mount nor give files away, and the
	// runtime does not really use the volumes. Memory is then a plain directory
	// and fsGroup is left out.
	Unprivileged bool
}

// TokenSource makes service account tokens for pods.
type TokenSource interface {
	// Token returns a token of the pod's service account, bound to the pod, for
	// that audience ("" is the API server) that is valid for about that time.
	// Implementations cache.
	Token(ctx context.Context, pod *corev1.Pod, audience string, validity time.Duration) (Token, error)
}

// Token is a service account token.
type Token struct {
	// Value is the token itself. It must not reach a log or an error.
	Value string
	// RefreshAt is when a newer one should take its place: the kubelet's rule is
	// 80 % of its life, or 24 h. Zero is never.
	RefreshAt time.Time
}

// EscapeName returns a plugin's name as the name of a directory.
func EscapeName(name string) string { return strings.ReplaceAll(name, "/", "~") }

// MakeDirs makes a directory and its missing parents with exactly these
// permissions, whatever the umask. Those that exist are left as they are.
func MakeDirs(path string, perm fs.FileMode) error { return safefs.MakeDirs(path, perm) }

// RemoveAll removes the file or tree at path, which need not exist, without
// following a link and without entering a mount: one found is an error that
// matches *volumes.MountedError. It ends early when ctx does.
func RemoveAll(ctx context.Context, path string) error { return safefs.RemoveAll(ctx, path) }
