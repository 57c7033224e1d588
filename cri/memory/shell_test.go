package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/sdk/cri/memory"
)

func TestCommands(t *testing.T) {
	forever := func(log ...string) memory.Behaviour { return memory.Behaviour{Log: log} }
	ends := func(d time.Duration, code int32, log ...string) memory.Behaviour {
		return memory.Behaviour{Exits: true, RunFor: d, ExitCode: code, Log: log}
	}
	tests := []struct {
		command string // words parted by |
		want    memory.Behaviour
	}{
		{"true", ends(0, 0)},
		{"/bin/false", ends(0, 1)},
		{"sleep|5", ends(5*time.Second, 0)},
		{"sleep|0.5|1m", ends(60500*time.Millisecond, 0)},
		{"sleep|1d", ends(24*time.Hour, 0)},
		{"sleep|infinity", forever()},
		{"sleep|inf", forever()},
		{"sleep|-1", forever()},
		{"sleep", forever()},
		{"echo|hello|world", ends(0, 0, "hello world")},
		{"httpd|-f", forever()},
		{"/bin/sh|-c|echo ready; sleep 2 && exit 3", ends(2*time.Second, 3, "ready")},
		{"sh|-ec|echo 'a; b' > /data/x\ncp a b", ends(0, 0)},
		{"sh|-c|false && echo no; echo \"yes\"", ends(0, 0, "yes")},
		{"sh|-c|false", ends(0, 1)},
		{"sh|-c|set -e; false; echo no", ends(0, 1)},
		{"sh|-c|echo up; exec httpd -f", forever("up")},
		{"sh|-c|exec sleep 3", ends(3*time.Second, 0)},
		{"sh|-c|while true; do sleep 1; done", forever()},
		{"sh|-c|trap 'exit 0' TERM; sleep 5", forever()},
		{"sh|-c|exit bad", forever()},
		{"sh|-c|sleep 1 & wait", forever()},
		{"sh|-c|exit 300", forever()},
		{"sh|-c|", ends(0, 0)},
		{"sh|-c", forever()},
		{"sh|script.sh", forever()},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			config := &runtimeapi.ContainerConfig{Command: strings.Split(tt.command, "|")}
			got, ok := memory.Commands()(memory.Container{Config: config})
			if !ok {
				t.Fatal("not known")
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(memory.Behaviour{}, "Exec"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := memory.Commands()(memory.Container{Config: &runtimeapi.ContainerConfig{}}); ok {
		t.Error("a container without a command is known")
	}
}

func FuzzCommands(f *testing.F) {
	f.Add("echo 'a; sleep 1 && exit 2")
	f.Add("&&;\n\"")
	f.Add("exec")
	f.Fuzz(func(t *testing.T, script string) {
		b, ok := memory.Commands()(memory.Container{Config: &runtimeapi.ContainerConfig{Args: []string{"sh", "-c", script}}})
		if !ok || b.RunFor < 0 {
			t.Errorf("%+v, %v", b, ok)
		}
	})
}
