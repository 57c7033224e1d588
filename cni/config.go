package cni

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/utils"
)

// maxConfig is the largest configuration file that is read, in bytes.
const maxConfig = 1 << 20

// Config is one network's configuration, from one file.
type Config struct {
	// File is where it came from.
	File string
	// Name is the network's.
	Name string
	// Plugins are the types of its plugins and of their IPAM plugins, in order,
	// each once: the programs that must be installed.
	Plugins []string
	// List is the configuration as libcni takes it.
	List *libcni.NetworkConfigList
}

// ConfigError is a configuration file that cannot be used.
type ConfigError struct {
	// File is its path.
	File string
	// Err says why.
	Err error
}

// Error names the file.
func (e *ConfigError) Error() string { return e.File + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *ConfigError) Unwrap() error { return e.Err }

// Load reads a directory of network configurations by libcni's rules: the files
// ending in .conf, .conflist and .json in the order of their names, a .conflist
// holding a list of plugins and the others a single one. Pods get the first. A
// file that cannot be used is left out and returned as a *ConfigError among
// broken. A directory that does not exist holds none; err is for one that cannot
// be read.
func Load(dir string) (networks []Config, broken []error, err error) {
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, nil, fmt.Errorf("list network configurations: %w", err)
	}
	slices.Sort(files)
	for _, file := range files {
		list, err := loadFile(file)
		if err != nil {
			broken = append(broken, &ConfigError{File: file, Err: err})
			continue
		}
		networks = append(networks, Config{File: file, Name: list.Name, Plugins: pluginsOf(list), List: list})
	}
	return networks, broken, nil
}

func loadFile(file string) (*libcni.NetworkConfigList, error) {
	b, err := readLimited(file)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) != ".conflist" {
		return loadSingle(b)
	}
	list, err := libcni.NetworkConfFromBytes(b)
	if err != nil {
		return nil, err
	}
	// Before anything else: libcni takes the name for a directory's.
	if err := checkName(list.Name); err != nil {
		return nil, err
	}
	if list, err = libcni.NetworkConfFromFile(file); err != nil {
		return nil, err
	}
	return list, checkName(list.Name)
}

// loadSingle reads the old format, one plugin with the network's name in it.
func loadSingle(b []byte) (*libcni.NetworkConfigList, error) {
	one, err := libcni.NetworkPluginConfFromBytes(b)
	if err != nil {
		return nil, err
	}
	if err := checkName(one.Network.Name); err != nil {
		return nil, err
	}
	//nolint:staticcheck // deprecated with the format, which runtimes still take.
	return libcni.ConfListFromConf(one)
}

func checkName(name string) error {
	if err := utils.ValidateNetworkName(name); err != nil {
		return fmt.Errorf("network name %q: %w", name, err)
	}
	return nil
}

func readLimited(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("larger than %d bytes", maxConfig)
	}
	return b, err
}

func pluginsOf(l *libcni.NetworkConfigList) (types []string) {
	for _, p := range l.Plugins {
		for _, t := range []string{p.Network.Type, p.Network.IPAM.Type} {
			if t != "" && !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types
}

// missingPlugins returns the types that no directory has a program for.
func missingPlugins(types, dirs []string) (missing []string) {
	for _, t := range types {
		file, err := invoke.FindInPath(t, dirs)
		if err == nil {
			if st, e := os.Stat(file); e == nil && st.Mode()&0o111 != 0 {
				continue
			}
		}
		missing = append(missing, t)
	}
	return missing
}

// scan is what one look at the directories found.
type scan struct {
	confDir  string
	binDirs  []string
	networks []Config
	broken   []error
	// err is of the configuration directory as a whole.
	err error
	// missing are the first network's plugins that are not installed.
	missing []string
}

// scanDirs looks once.
func scanDirs(confDir string, binDirs []string) scan {
	s := scan{confDir: confDir, binDirs: binDirs}
	s.networks, s.broken, s.err = Load(confDir)
	if len(s.networks) > 0 {
		s.missing = missingPlugins(s.networks[0].Plugins, binDirs)
	}
	return s
}

// status decides what was found amounts to.
func (s scan) status() Status {
	var st Status
	for _, b := range s.broken {
		st.Problems = append(st.Problems, b.Error())
	}
	if s.err != nil {
		st.Reason, st.Message = ReasonNoConfig, s.err.Error()
		return st
	}
	if len(s.networks) == 0 {
		st.Reason, st.Message = ReasonNoConfig, "no network configuration in "+s.confDir
		if len(s.broken) > 0 {
			st.Message = "no usable network configuration in " + s.confDir + ": " + strings.Join(st.Problems, "; ")
		}
		return st
	}
	first := s.networks[0]
	st.Network = first.Name
	if len(s.missing) > 0 {
		st.Reason = ReasonNoPlugin
		st.Message = fmt.Sprintf("network %q of %s needs the plugin %s, which is in none of %s",
			first.Name, first.File, strings.Join(s.missing, ", "), strings.Join(s.binDirs, ", "))
		return st
	}
	st.Ready = true
	return st
}
