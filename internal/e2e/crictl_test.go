package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/sdk/internal/realruntime"
)

// crictl shows the agent's pods as it does a kubelet's.
func TestCrictl(t *testing.T) {
	r := sharedRig(t)
	bin, err := realruntime.LocateBin()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "crictl")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs crictl in %s; run: make runtime", bin)
	}
	config := filepath.Join(t.TempDir(), "crictl.yaml")
	if err := os.WriteFile(config, []byte("runtime-endpoint: "+r.Endpoint()+"\nimage-endpoint: "+r.Endpoint()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	crictl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, append([]string{"-c", config}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("crictl %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	r.apply(t, "listed", pod("listed", sleeper))
	p := r.waitReady(t, "listed")
	if out := crictl("ps", "--label", "io.kubernetes.pod.uid="+string(p.UID)); !strings.Contains(out, containerID(p, "app")[:13]) || !strings.Contains(out, "Running") || !strings.Contains(out, "listed-e2e") {
		t.Errorf("crictl ps:\n%s", out)
	}
	if out := crictl("pods", "--name", "listed-e2e", "--namespace", "default"); !strings.Contains(out, "Ready") || !strings.Contains(out, "listed-e2e") {
		t.Errorf("crictl pods:\n%s", out)
	}
	if out := crictl("exec", containerID(p, "app"), "hostname"); strings.TrimSpace(out) != "listed-e2e" {
		t.Errorf("crictl exec: %q", out)
	}
	r.remove(t, "listed")
	r.waitGone(t, p)
}
