//go:build !linux

package volumes

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/volumes/internal/safefs"
)

// bindSubPath finds the subPath in the volume. Only Linux binds it.
func (m *Manager) bindSubPath(_ types.UID, vol *volume, _ string, _ int, subPath string) (string, error) {
	h, err := safefs.OpenBeneath(vol.mounted.Path, subPath, true)
	if err != nil {
		return "", err
	}
	defer h.Close()
	if !m.host.Unprivileged {
		return "", &plainError{"subPath is supported on Linux only"}
	}
	return filepath.Join(vol.mounted.Path, subPath), nil
}
