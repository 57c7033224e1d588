package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	mount "k8s.io/mount-utils"
	"k8s.io/utils/clock"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/configmap"
	"github.com/podsync/sdk/volumes/downwardapi"
	"github.com/podsync/sdk/volumes/emptydir"
	"github.com/podsync/sdk/volumes/hostpath"
	"github.com/podsync/sdk/volumes/mounter"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/projected"
	"github.com/podsync/sdk/volumes/secret"
)

// The vocabulary of package plugin, for those who only use volumes.
type (
	// Plugin is one kind of volume.
	Plugin = plugin.Plugin
	// TokenSource makes service account tokens for pods.
	TokenSource = plugin.TokenSource
	// Token is a service account token.
	Token = plugin.Token
)

// defaultParallel is how many volumes of one pod are set up at a time.
const defaultParallel = 4

// Options configure a Manager. Only Layout is required.
type Options struct {
	// Layout says where the pods' directories are.
	Layout Layout
	// Plugins are the kinds of volume, in the order in which they are asked. Nil
	// is DefaultPlugins().
	Plugins []Plugin
	// Objects gives config maps and secrets. Nil means that none exists.
	Objects podsync.Objects
	// Mounter mounts. Nil is mounter.New().
	Mounter mount.Interface
	// Allocatable returns what pods may use of the node: it bounds memory volumes
	// and stands in for missing limits. Nil leaves both to the kernel's defaults.
	Allocatable func() corev1.ResourceList
	// Tokens makes service account tokens. Nil makes volumes that need one fail.
	Tokens TokenSource
	// Clock tells when a token is due for renewal. Nil is the real one.
	Clock clock.PassiveClock
	// Logger takes what plugins have to say. Nil discards it.
	Logger *slog.Logger
	// Parallel is how many volumes of one pod are set up at a time. 0 is 4.
	Parallel int
	// Unprivileged is for an agent that may not mount and give files away (one
	// that is not root) on a runtime that does not really mount volumes:
	// volumes in memory become plain directories, secrets then reach the disk;
	// fsGroup is left out; a subPath is checked, but not bound.
	Unprivileged bool
}

// DefaultPlugins returns the kinds of volume that this package brings: emptyDir,
// hostPath, configMap, secret, downwardAPI and projected.
func DefaultPlugins() []Plugin {
	return []Plugin{
		emptydir.Plugin{}, hostpath.Plugin{}, configmap.Plugin{},
		secret.Plugin{}, downwardapi.Plugin{}, projected.Plugin{},
	}
}

// Manager sets up the volumes of pods and takes them down. For one pod it does
// one thing at a time; different pods do not wait for each other. It starts no
// goroutine that outlives a call. Safe for concurrent use.
type Manager struct {
	layout   Layout
	objects  podsync.Objects
	host     plugin.Host
	parallel int
	plugins  []Plugin
	byDir    map[string]Plugin

	mu   sync.RWMutex
	pods map[types.UID]*podState
}

// podState is what the manager knows of one pod; after a restart, nothing.
type podState struct {
	lock chan struct{} // held by whoever works on the pod
	// gone: taken out of Manager.pods. Guarded by lock.
	gone bool
	// vols are the volumes set up so far. Guarded by lock.
	vols []volume
	// current is set while all the pod's volumes are up.
	current atomic.Pointer[podVolumes]
	// down is set from the beginning of an unmount on.
	down atomic.Bool
}

// New makes a manager. It touches nothing yet.
func New(o Options) (*Manager, error) {
	if err := o.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("volumes: %w", err)
	}
	m := &Manager{
		layout: o.Layout, objects: o.Objects, parallel: o.Parallel, plugins: o.Plugins,
		byDir: map[string]Plugin{}, pods: map[types.UID]*podState{},
		host: plugin.Host{
			Mounter: o.Mounter, Allocatable: o.Allocatable, Tokens: o.Tokens,
			Clock: o.Clock, Logger: o.Logger, Unprivileged: o.Unprivileged,
		},
	}
	m.setDefaults()
	for _, p := range m.plugins {
		dir := plugin.EscapeName(p.Name())
		switch {
		case dir == "" || strings.HasPrefix(dir, ".") || strings.ContainsAny(dir, "\x00\\") || strings.Contains(p.Name(), "~"):
			return nil, fmt.Errorf("volumes: plugin name %q cannot name a directory", p.Name())
		case m.byDir[dir] != nil:
			return nil, fmt.Errorf("volumes: there are two plugins named %q", p.Name())
		}
		m.byDir[dir] = p
	}
	return m, nil
}

func (m *Manager) setDefaults() {
	if m.plugins == nil {
		m.plugins = DefaultPlugins()
	}
	if m.objects == nil {
		m.objects = noObjects{}
	}
	if m.parallel <= 0 {
		m.parallel = defaultParallel
	}
	h := &m.host
	if h.Mounter == nil {
		h.Mounter = mounter.New()
	}
	if h.Allocatable == nil {
		h.Allocatable = func() corev1.ResourceList { return nil }
	}
	if h.Clock == nil {
		h.Clock = clock.RealClock{}
	}
	if h.Logger == nil {
		h.Logger = slog.New(slog.DiscardHandler)
	}
}

func (m *Manager) state(uid types.UID) *podState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pods[uid]
}

// acquire returns the pod's state, locked. It waits for whoever has it, at most
// until ctx ends.
func (m *Manager) acquire(ctx context.Context, uid types.UID) (*podState, error) {
	for {
		m.mu.Lock()
		st := m.pods[uid]
		if st == nil {
			st = &podState{lock: make(chan struct{}, 1)}
			m.pods[uid] = st
		}
		m.mu.Unlock()
		select {
		case st.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another operation on the volumes of pod %s: %w", uid, ended(ctx))
		}
		if !st.gone {
			return st, nil
		}
		<-st.lock
	}
}

func (m *Manager) release(st *podState) { <-st.lock }

// forget drops the state of a pod that holds nothing any more. st is locked.
func (m *Manager) forget(uid types.UID, st *podState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st.gone = true
	delete(m.pods, uid)
}

// pluginFor finds the plugin of a volume.
func (m *Manager) pluginFor(v *corev1.Volume) (Plugin, error) {
	for _, p := range m.plugins {
		if p.CanSupport(v) {
			return p, nil
		}
	}
	return nil, &UnsupportedError{Kind: kindOf(v)}
}

// errNotInSpec is a mount of a volume that the pod does not have.
var errNotInSpec = errors.New("a container mounts it, but the pod has no volume of that name")

// ended says that a context ended, and why.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
