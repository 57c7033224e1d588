package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podsync/sdk/internal/realruntime"
)

// exampleAgent builds the example agent.
func exampleAgent(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "edgeagent")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../examples/edgeagent").CombinedOutput(); err != nil {
		t.Fatalf("build the example agent: %v\n%s", err, out)
	}
	return program
}

// TestDemo is the promise of `make run`: the demo pod comes up with all its stages, its web server answers with
// what came out of its volumes, and nothing is left.
func TestDemo(t *testing.T) {
	agent := exampleAgent(t)
	tests := []struct {
		name   string
		memory bool
		want   []string
	}{
		{"memory", true, []string{"demo-demo-node   2/2     Running"}},
		{"containerd", false, []string{
			"demo-demo-node   2/2     Running",
			"page     init      Completed",
			"Hello, from pod default/demo-demo-node on node demo-node\n",
			"memory limit  64 MiB",
			`labels        app="demo"`,
			"a token of 17 characters in an environment variable, 17 bytes in a file of mode 440",
			"projected     greeting name token",
			"scratch       tmpfs on /scratch",
			"files\nnone\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if why := realruntime.Missing(); why != "" && !tt.memory {
				t.Skip(why)
			}
			var out bytes.Buffer
			err := run(t.Context(), options{
				manifests: "../../../examples/manifests", agent: agent, registry: "127.0.0.1:0", listen: "127.0.0.1:0",
				timeout: time.Minute, verbosity: 2, once: true, memory: tt.memory, shared: true,
			}, &out)
			if err != nil {
				t.Errorf("%v, output:\n%s", err, &out)
			}
			for _, stage := range []string{"admit       resources", "sync        volumes", "sync        runtime", "terminating stop-containers"} {
				tt.want = append(tt.want, " "+stage+" ")
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in the output", want)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
