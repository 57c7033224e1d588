package manifest

import (
	"path/filepath"
	"strings"
)

// Ignored tells whether a directory's reader passes over a file of this name:
// hidden files, and what editors, package managers and downloads leave beside
// the file that is meant ("web.yaml~", "#web.yaml#", "web.yaml.swp", "4913",
// "web.yaml.dpkg-new", "web.yaml.part"). A file of any other name is read,
// whatever its extension, as the kubelet does.
func Ignored(name string) bool {
	name = filepath.Base(name)
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
		return true
	}
	// vim makes a file of this name, or a later number, to learn whether it can.
	if strings.Trim(name, "0123456789") == "" {
		return true
	}
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".swp", ".swo", ".swx", ".tmp", ".temp", ".bak", ".backup", ".old", ".orig", ".rej", ".part", ".partial", ".crdownload",
		".rpmnew", ".rpmsave", ".rpmorig", ".ucf-new", ".ucf-old", ".ucf-dist":
		return true
	default:
		return strings.HasPrefix(ext, ".dpkg-")
	}
}
