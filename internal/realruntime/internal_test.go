//go:build linux

package realruntime

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testInstance() instance {
	return instance{Token: "0123abcd", Root: "/tmp/podsync-rt-1", BinDir: "/bin-dir", SocketDir: "/tmp/podsync-rt-1/s", Subnet: netip.MustParsePrefix("10.213.7.0/24")}
}

const table = `*nat
:PREROUTING ACCEPT [0:0]
:CNI-DN-aaaaaaaaaaaaaaaaaaaaa - [0:0]
:CNI-DN-bbbbbbbbbbbbbbbbbbbbb - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.213.7.2/32 -m comment --comment "name: \"podsync-0123abcd\" id: \"x\"" -j CNI-cccccccccccccccccccccccc
-A CNI-DN-aaaaaaaaaaaaaaaaaaaaa -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.213.7.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podsync-0123abcd\" id: \"x\"" -m multiport --dports 80 -j CNI-DN-aaaaaaaaaaaaaaaaaaaaa
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"other\" id: \"y\"" -m multiport --dports 81 -j CNI-DN-bbbbbbbbbbbbbbbbbbbbb
-A CNI-cccccccccccccccccccccccc -d 10.213.7.0/24 -m comment --comment "name: \"podsync-0123abcd\" id: \"x\"" -j ACCEPT
COMMIT
`

func TestUndoRules(t *testing.T) {
	want := `*nat
-D POSTROUTING -s 10.213.7.2/32 -m comment --comment "name: \"podsync-0123abcd\" id: \"x\"" -j CNI-cccccccccccccccccccccccc
-D CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"podsync-0123abcd\" id: \"x\"" -m multiport --dports 80 -j CNI-DN-aaaaaaaaaaaaaaaaaaaaa
-F CNI-DN-aaaaaaaaaaaaaaaaaaaaa
-F CNI-cccccccccccccccccccccccc
-X CNI-DN-aaaaaaaaaaaaaaaaaaaaa
-X CNI-cccccccccccccccccccccccc
COMMIT
`
	if diff := cmp.Diff(want, undo(table, "podsync-0123abcd")); diff != "" {
		t.Errorf("script (-want +got):\n%s", diff)
	}
	if got := undo(table, "podsync-0123"); got != "" {
		t.Errorf("a network whose name only begins alike: %s", got)
	}
}

func TestUndoHostPorts(t *testing.T) {
	if got := undoHostPorts(table); got != "" {
		t.Errorf("chains in use by others must stay: %s", got)
	}
	var unused strings.Builder
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "-A CNI-HOSTPORT-DNAT") {
			unused.WriteString(line)
		}
	}
	want := `*nat
-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-D POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-F CNI-HOSTPORT-DNAT
-F CNI-HOSTPORT-MASQ
-X CNI-HOSTPORT-DNAT
-X CNI-HOSTPORT-MASQ
COMMIT
`
	if diff := cmp.Diff(want, undoHostPorts(unused.String())); diff != "" {
		t.Errorf("script (-want +got):\n%s", diff)
	}
}

func TestVictims(t *testing.T) {
	i := testInstance()
	all := []procInfo{
		{pid: 1, args: []string{"init"}},
		{pid: 10, parent: 1, args: []string{"go", "test"}, cgroups: "4:memory:/podsync-0123abcd/tests\n"},
		{pid: 11, parent: 10, args: []string{"containerd", "--config", i.configFile()}},
		{pid: 12, parent: 1, args: []string{"containerd-shim-runc-v2", "-namespace", "k8s.io", "-address", i.socket()}},
		{pid: 13, parent: 12, args: []string{"sleep"}, cgroups: "0::/\n"},
		{pid: 14, parent: 13, args: []string{"sh"}},
		{pid: 15, parent: 1, args: []string{"orphan"}, cgroups: "4:memory:/kubepods/pod1/c1\n"},
		{pid: 16, parent: 1, args: []string{"orphan"}, cgroups: "4:memory:/podsync-0123abcd/pod2/c9\n"},
		{pid: 20, parent: 1, args: []string{"containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"}},
		{pid: 21, parent: 1, args: []string{"vi", i.configFile()}},
		{pid: 22, parent: 1, args: []string{"other"}, cgroups: "4:memory:/podsync-0123abcde/pod\n"},
	}
	if diff := cmp.Diff([]int{11, 12, 13, 14, 15, 16}, i.victims(all, []string{"c1", "c2"}, 10)); diff != "" {
		t.Errorf("victims (-want +got):\n%s", diff)
	}
}

func TestConfigurationKeepsToItsRoot(t *testing.T) {
	i := testInstance()
	cni, err := cniConfig(i)
	if err != nil {
		t.Fatal(err)
	}
	text := containerdConfig(i, settings{SandboxImage: "127.0.0.1:1/pause:3.10", RestrictOOM: true}) + string(cni)
	for _, want := range []string{
		`root = "/tmp/podsync-rt-1/root"`, `state = "/tmp/podsync-rt-1/state"`, `address = "/tmp/podsync-rt-1/containerd.sock"`,
		`socket_dir = "/tmp/podsync-rt-1/s"`, `BinaryName = "/bin-dir/runc"`, "restrict_oom_score_adj = true", "SystemdCgroup = false",
		`"bridge": "psb0123abcd"`, `"dataDir": "/tmp/podsync-rt-1/ipam"`, `"subnet": "10.213.7.0/24"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %s", want)
		}
	}
	if strings.Contains(text, "/run/") || strings.Contains(text, "/var/") || strings.Contains(text, "/etc/") {
		t.Errorf("the configuration names a place of the machine:\n%s", text)
	}
	if n := len(i.bridge()); n > 15 {
		t.Errorf("an interface name of %d bytes", n)
	}
}
