package volumes

import (
	"fmt"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/internal/safefs"
	"github.com/podsync/sdk/volumes/plugin"
)

const (
	dirPerm   = 0o750
	maxUIDLen = 128

	volumesDir    = "volumes"
	pluginsDir    = "plugins"
	containersDir = "containers"
	subPathsDir   = "volume-subpaths"
	etcHostsFile  = "etc-hosts"
)

// Layout says where pods keep their things below the agent's root directory:
//
//	pods/<uid>/volumes/<plugin>/<volume>
//	pods/<uid>/plugins/<plugin>/<volume>
//	pods/<uid>/containers/<container>
//	pods/<uid>/etc-hosts
//	pods/<uid>/volume-subpaths/<volume>/<container>/<index>
//
// These are the kubelet's paths. Directories have mode 0750. A UID or name that
// could lead anywhere else is an error of every method, whoever validated the
// pod before.
type Layout struct {
	// Root is the agent's root directory, absolute. The kubelet's is /var/lib/kubelet.
	Root string
}

// NameError says that a UID or a name cannot be part of a path.
type NameError struct {
	// What is meant: "pod UID", "volume name", "container name".
	What string
	// Value is the refused one.
	Value string
}

// Error shows the value quoted and cut to a readable length.
func (e *NameError) Error() string {
	v := e.Value
	if len(v) > maxUIDLen {
		v = v[:maxUIDLen] + "…"
	}
	return fmt.Sprintf("%s %q cannot name a directory", e.What, v)
}

// Validate tells whether Root can be used.
func (l Layout) Validate() error {
	if !filepath.IsAbs(l.Root) || filepath.Clean(l.Root) != l.Root || l.Root == string(filepath.Separator) {
		return fmt.Errorf("root directory %q must be an absolute path without . and .., and not the root of the file system", l.Root)
	}
	return nil
}

// Pods returns the directory that holds the pods' directories.
func (l Layout) Pods() string { return l.Root + "/pods" }

// PodDir returns the directory of a pod.
func (l Layout) PodDir(uid types.UID) (string, error) {
	if !validUID(string(uid)) {
		return "", &NameError{What: "pod UID", Value: string(uid)}
	}
	return l.Root + "/pods/" + string(uid), nil
}

// Dirs returns a pod's directories. It makes none.
func (l Layout) Dirs(uid types.UID) (podsync.Dirs, error) {
	root, err := l.PodDir(uid)
	if err != nil {
		return podsync.Dirs{}, err
	}
	// One allocation for all five: this runs at every sync of every pod.
	all := root + "/" + volumesDir + root + "/" + pluginsDir + root + "/" + containersDir + root + "/" + etcHostsFile
	next := func(n int) (p string) {
		p, all = all[:len(root)+1+n], all[len(root)+1+n:]
		return p
	}
	d := podsync.Dirs{Root: root}
	d.Volumes = next(len(volumesDir))
	d.Plugins = next(len(pluginsDir))
	d.Containers = next(len(containersDir))
	d.EtcHosts = next(len(etcHostsFile))
	return d, nil
}

// ContainerDir returns the directory of a container's termination messages.
func (l Layout) ContainerDir(uid types.UID, container string) (string, error) {
	root, err := l.PodDir(uid)
	if err != nil {
		return "", err
	}
	return root + "/" + containersDir + "/" + container, validName("container name", container)
}

// VolumeDir returns the directory of a volume of the plugin with that name.
func (l Layout) VolumeDir(uid types.UID, pluginName, volume string) (string, error) {
	return l.below(uid, volumesDir, pluginName, volume)
}

// PluginDir returns the directory where a plugin notes things about a volume.
func (l Layout) PluginDir(uid types.UID, pluginName, volume string) (string, error) {
	return l.below(uid, pluginsDir, pluginName, volume)
}

func (l Layout) below(uid types.UID, kind, pluginName, volume string) (string, error) {
	root, err := l.PodDir(uid)
	if err != nil {
		return "", err
	}
	return root + "/" + kind + "/" + plugin.EscapeName(pluginName) + "/" + volume, validName("volume name", volume)
}

// SubPath returns where a subPath of a volume is bound for the index-th mount of
// a container.
func (l Layout) SubPath(uid types.UID, volume, container string, index int) (string, error) {
	root, err := l.PodDir(uid)
	if err != nil {
		return "", err
	}
	if err := validName("volume name", volume); err != nil {
		return "", err
	}
	if err := validName("container name", container); err != nil {
		return "", err
	}
	return filepath.Join(root, subPathsDir, volume, container, strconv.Itoa(max(index, 0))), nil
}

// make makes the pod's directories, with exactly the mode they are to have.
func makePodDirs(d podsync.Dirs) error {
	for _, p := range []string{d.Volumes, d.Containers, d.Plugins} {
		if err := safefs.MakeDirs(p, dirPerm); err != nil {
			return err
		}
	}
	return nil
}

// validUID takes letters, digits and inner dashes.
func validUID(s string) bool {
	if s == "" || len(s) > maxUIDLen || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

func validName(what, s string) error {
	if len(validation.IsDNS1123Label(s)) > 0 {
		return &NameError{What: what, Value: s}
	}
	return nil
}
