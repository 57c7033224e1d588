// Package configmap is the plugin of configMap volumes.
package configmap

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/plugin"
)

// Plugin serves configMap volumes. The zero value is ready to use.
type Plugin struct{}

var (
	_ plugin.Plugin = Plugin{}
	_ plugin.Keeper = Plugin{}
)

// Name returns "kubernetes.io/configmap".
func (Plugin) Name() string { return "kubernetes.io/configmap" }

// CanSupport tells whether the volume is a configMap.
func (Plugin) CanSupport(v *corev1.Volume) bool { return v.ConfigMap != nil }

// Attributes: read-only, readable by fsGroup.
func (Plugin) Attributes(*corev1.Volume) plugin.Attributes {
	return plugin.Attributes{ReadOnly: true, FSGroup: true, SELinux: true}
}

// SetUp shows the config map's keys as files. A config map or key that is
// missing and not optional is a *content.MissingError.
func (Plugin) SetUp(ctx context.Context, r *plugin.Request) (plugin.Mounted, error) {
	src := r.Volume.ConfigMap
	p, err := content.ConfigMap(ctx, r.Objects, r.Pod.Namespace, src.Name, content.Source{
		Items: src.Items, Mode: src.DefaultMode, Optional: src.Optional != nil && *src.Optional,
	})
	if err != nil {
		return plugin.Mounted{}, err
	}
	return content.SetUp(ctx, r, p, false)
}

// Usable tells whether files written earlier are there.
func (Plugin) Usable(r *plugin.Request) (plugin.Mounted, bool) { return content.Usable(r) }

// TearDown removes the files.
func (Plugin) TearDown(ctx context.Context, r *plugin.Removal) error { return content.TearDown(ctx, r) }
