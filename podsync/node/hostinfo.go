package node

import (
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// HostInfo returns what a Node's status says of its machine: architecture,
// operating system, kernel, boot and machine id. The runtime's and the agent's
// versions are left for the caller. What cannot be read is empty.
func HostInfo() corev1.NodeSystemInfo {
	first := func(paths ...string) string {
		for _, p := range paths {
			if b, err := os.ReadFile(p); err == nil && len(b) > 0 {
				return strings.TrimSpace(string(b))
			}
		}
		return ""
	}
	i := corev1.NodeSystemInfo{
		Architecture: runtime.GOARCH, OperatingSystem: runtime.GOOS,
		KernelVersion: first("/proc/sys/kernel/osrelease"),
		BootID:        first("/proc/sys/kernel/random/boot_id"),
		MachineID:     first("/etc/machine-id", "/var/lib/dbus/machine-id"),
		SystemUUID:    first("/sys/class/dmi/id/product_uuid"),
		OSImage:       osName(first("/etc/os-release", "/usr/lib/os-release")),
	}
	if i.SystemUUID == "" {
		i.SystemUUID = i.MachineID
	}
	return i
}

// osName is PRETTY_NAME of an os-release file.
func osName(release string) string {
	for line := range strings.Lines(release) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}
