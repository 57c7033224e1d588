// Package projected is the plugin of projected volumes: files of several
// sources in one directory, kept in memory.
package projected

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/atomicwriter"
	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/downwardapi"
	"github.com/podsync/sdk/volumes/plugin"
)

// defaultTokenLife is what the API server's defaulting sets.
const defaultTokenLife = time.Hour

// ErrNoTokens says that a pod wants a service account token where none can be
// made: the agent has no API server.
var ErrNoTokens = errors.New("service account tokens need a token source, and this agent has none")

// Plugin serves projected volumes. The zero value is ready to use.
type Plugin struct{}

var (
	_ plugin.Plugin = Plugin{}
	_ plugin.Keeper = Plugin{}
)

// Name returns "kubernetes.io/projected".
func (Plugin) Name() string { return "kubernetes.io/projected" }

// CanSupport tells whether the volume is a projected one.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.Projected != nil }

// Attributes: read-only, readable by fsGroup, refreshed when the pod changes.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{ReadOnly: true, FSGroup: true, SELinux: true, Refresh: true}
}

// SetUp collects the files of all sources; of two with one path the later
// source's wins. The errors of all sources are told together.
func (Plugin) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	c := collector{r: r, files: atomicwriter.Payload{}}
	var errs []error
	for i := range r.Volume.Projected.Sources {
		if err := c.add(ctx, &r.Volume.Projected.Sources[i]); err != nil {
			errs = append(errs, fmt.Errorf("source %d: %w", i, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return plugin.Mounted{}, err
	}
	m, err := content.SetUp(ctx, r, c.files, true)
	m.RefreshAt = c.refresh
	return m, err
}

// Usable tells whether files written earlier are there.
func (Plugin) Usable(r *plugin.Request) (plugin.Mounted, bool) { return content.Usable(r) }

// TearDown unmounts the tmpfs.
func (Plugin) TearDown(ctx context.Context, r *plugin.Removal) error { return content.TearDown(ctx, r) }

type collector struct {
	r       *plugin.Request
	files   atomicwriter.Payload
	refresh time.Time
}

func (c *collector) add(ctx context.Context, s *corev1.VolumeProjection) error {
	mode := c.r.Volume.Projected.DefaultMode
	var p atomicwriter.Payload
	var err error
	switch {
	case s.Secret != nil:
		p, err = content.Secret(ctx, c.r.Objects, c.r.Pod.Namespace, s.Secret.Name, content.Source{
			Items: s.Secret.Items, Mode: mode, Optional: s.Secret.Optional != nil && *s.Secret.Optional,
		})
	case s.ConfigMap != nil:
		p, err = content.ConfigMap(ctx, c.r.Objects, c.r.Pod.Namespace, s.ConfigMap.Name, content.Source{
			Items: s.ConfigMap.Items, Mode: mode, Optional: s.ConfigMap.Optional != nil && *s.ConfigMap.Optional,
		})
	case s.DownwardAPI != nil:
		p, err = downwardapi.Payload(c.r.Pod, s.DownwardAPI.Items, mode, c.r.Host.Allocatable())
	case s.ServiceAccountToken != nil:
		p, err = c.token(ctx, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		err = errors.New("clusterTrustBundle is not supported")
	case s.PodCertificate != nil:
		err = errors.New("podCertificate is not supported")
	default:
		err = errors.New("is of no known kind")
	}
	if err != nil {
		return err
	}
	maps.Copy(c.files, p)
	return nil
}

func (c *collector) token(ctx context.Context, s *corev1.ServiceAccountTokenProjection, volume *int32) (atomicwriter.Payload, error) {
	if c.r.Host.Tokens == nil {
		return nil, ErrNoTokens
	}
	if err := atomicwriter.ValidatePath(s.Path); err != nil {
		return nil, err
	}
	mode, err := content.Mode(nil, volume)
	if err != nil {
		return nil, err
	}
	life := defaultTokenLife
	if s.ExpirationSeconds != nil {
		life = time.Duration(*s.ExpirationSeconds) * time.Second
	}
	t, err := c.r.Host.Tokens.Token(ctx, c.r.Pod, s.Audience, life)
	if err != nil {
		return nil, fmt.Errorf("get a token of service account %q: %w", c.r.Pod.Spec.ServiceAccountName, err)
	}
	if !t.RefreshAt.IsZero() && (c.refresh.IsZero() || t.RefreshAt.Before(c.refresh)) {
		c.refresh = t.RefreshAt
	}
	// A token is only for whom the pod runs as, where that is known.
	f := atomicwriter.File{Data: []byte(t.Value), Mode: mode}
	if f.UID = commonUser(c.r.Pod); c.r.Host.Unprivileged {
		f.UID = nil
	}
	if f.UID != nil || c.r.FSGroup != nil {
		f.Mode = 0o600
	}
	return atomicwriter.Payload{s.Path: f}, nil
}

// commonUser returns the user that all containers run as by the spec, nil when
// one does not say or they differ.
func commonUser(pod *corev1.Pod) *int64 {
	var all []*corev1.SecurityContext
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			all = append(all, cs[i].SecurityContext)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	var user *int64
	for _, sc := range all {
		u := (*int64)(nil)
		if psc := pod.Spec.SecurityContext; psc != nil {
			u = psc.RunAsUser
		}
		if sc != nil && sc.RunAsUser != nil {
			u = sc.RunAsUser
		}
		if u == nil || user != nil && *user != *u {
			return nil
		}
		user = u
	}
	return user
}
