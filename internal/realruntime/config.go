package realruntime

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
)

// An instance is what one private containerd owns. It is stored in its root directory before anything is
// made, so that whoever finds the directory later can undo all of it.
type instance struct {
	PID        int          `json:"pid"`       // the process that started it
	StartTime  string       `json:"startTime"` // of that process, in clock ticks since boot: tells a reused PID
	PIDSpace   string       `json:"pidSpace"`  // the PID namespace that PID is of
	Token      string       `json:"token"`
	Root       string       `json:"root"`
	BinDir     string       `json:"binDir"`
	SocketDir  string       `json:"socketDir"` // of the shims
	Subnet     netip.Prefix `json:"subnet"`
	Masquerade bool         `json:"masquerade"`
}

func (i instance) path(elem ...string) string {
	return filepath.Join(append([]string{i.Root}, elem...)...)
}
func (i instance) socket() string     { return i.path("containerd.sock") }
func (i instance) configFile() string { return i.path("containerd.toml") }
func (i instance) logFile() string    { return i.path("containerd.log") }
func (i instance) cniDir() string     { return i.path("cni") }
func (i instance) network() string    { return networkPrefix + i.Token }
func (i instance) bridge() string     { return bridgePrefix + i.Token }
func (i instance) cgroupRoot() string { return "/podsync-" + i.Token }

// settings are what containerd's configuration depends on beside the instance.
type settings struct {
	SandboxImage string
	RestrictOOM  bool // without CAP_SYS_RESOURCE no process may lower its OOM score
	Extra        string
}

// containerdConfig is the configuration for containerd 2.x. All paths are below the root; NRI, whose socket
// has a fixed place, is off; network namespaces are mounted below the state directory.
func containerdConfig(i instance, s settings) string {
	q := strconv.Quote
	return fmt.Sprintf(`version = 3
root = %[1]s
state = %[2]s
temp = %[3]s
disabled_plugins = [
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]

[grpc]
address = %[4]s

[ttrpc]
address = %[5]s

[plugins.'io.containerd.internal.v1.opt']
path = %[6]s

[plugins.'io.containerd.nri.v1.nri']
disable = true

[plugins.'io.containerd.shim.v1.manager']
socket_dir = %[7]s

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %[8]s

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = %[9]t
netns_mounts_under_state_dir = true
cdi_spec_dirs = []

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%[10]s]
conf_dir = %[11]s
use_internal_loopback = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %[12]s
Root = %[13]s
SystemdCgroup = false

[plugins.'io.containerd.grpc.v1.cri']
stream_server_address = "127.0.0.1"
stream_server_port = "0"

%[14]s`,
		q(i.path("root")), q(i.path("state")), q(i.path("tmp")), q(i.socket()), q(i.socket()+".ttrpc"), q(i.path("opt")),
		q(i.SocketDir), q(s.SandboxImage), s.RestrictOOM, q(filepath.Join(i.BinDir, "cni")), q(i.cniDir()),
		q(filepath.Join(i.BinDir, "runc")), q(i.path("runc")), s.Extra)
}

// cniConfig is the pod network: a bridge of its own, addresses from a private subnet, host ports.
func cniConfig(i instance) ([]byte, error) {
	type object = map[string]any
	conf := object{
		"cniVersion": "1.0.0",
		"name":       i.network(),
		"plugins": []object{
			{
				"type": "bridge", "bridge": i.bridge(), "isGateway": true, "ipMasq": i.Masquerade, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "dataDir": i.path("ipam"),
					"ranges": [][]object{{{"subnet": i.Subnet.String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
	b, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the CNI configuration: %w", err)
	}
	return b, nil
}
