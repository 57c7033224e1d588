package remote

import "testing"

func TestDriverOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, want string }{
		{"nothing", "", "cgroupfs"},
		{"no JSON", "{", "cgroupfs"},
		{"containerd 1.6, systemd", `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}}}}}`, "systemd"},
		{"containerd 1.6, cgroupfs", `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":false}}}}}`, "cgroupfs"},
		{"not the default runtime", `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"kata":{"options":{"SystemdCgroup":true}},"runc":{}}}}`, "cgroupfs"},
		{"old plugin setting", `{"systemdCgroup":true}`, "systemd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := driverOf(tt.config); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
