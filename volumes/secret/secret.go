// Package secret is the plugin of secret volumes, which are kept in memory.
package secret

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/plugin"
)

// Plugin serves secret volumes. The zero value is ready to use.
type Plugin struct{}

var (
	_ plugin.Plugin = Plugin{}
	_ plugin.Keeper = Plugin{}
)

// Name returns "kubernetes.io/secret".
func (Plugin) Name() string { return "kubernetes.io/secret" }

// CanSupport tells whether the volume is a secret.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.Secret != nil }

// Attributes: read-only, readable by fsGroup.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{ReadOnly: true, FSGroup: true, SELinux: true}
}

// SetUp shows the secret's keys as files in a tmpfs. A secret or key that is
// missing and not optional is a *content.MissingError.
func (Plugin) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	src := r.Volume.Secret
	p, err := content.Secret(ctx, r.Objects, r.Pod.Namespace, src.SecretName, content.Source{
		Items: src.Items, Mode: src.DefaultMode, Optional: src.Optional != nil && *src.Optional,
	})
	if err != nil {
		return plugin.Mounted{}, err
	}
	return content.SetUp(ctx, r, p, true)
}

// Usable tells whether files written earlier are there.
func (Plugin) Usable(r *plugin.Request) (plugin.Mounted, bool) { return content.Usable(r) }

// TearDown unmounts the tmpfs.
func (Plugin) TearDown(ctx context.Context, r *plugin.Removal) error { return content.TearDown(ctx, r) }
