package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podsync/sdk/internal/realruntime"
)

// suite is what all tests of this package share: the agent program, the registry
// and one containerd with one agent for the tests that only bring pods to it.
// TestMain owns it.
var suite struct {
	dir   string
	agent string // the program
	once  sync.Once
	err   error

	registry *realruntime.Registry

	sharedOnce sync.Once
	shared     *rig
	sharedErr  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		// Most of these tests wait for processes and for time, not for a CPU.
		_ = f.Value.Set("6")
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "podsync-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.dir = dir
	defer os.RemoveAll(dir)
	before, err := realruntime.TakeSnapshot()
	if err != nil && realruntime.Missing() == "" {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	ctx := context.Background()
	if suite.shared != nil {
		for _, l := range suite.shared.close(ctx) {
			fmt.Fprintln(os.Stderr, "left behind:", l)
			code = 1
		}
	}
	if suite.registry != nil {
		if err := suite.registry.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		left, err := before.Leaks()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		// Each rig has looked for what is its own; others may run pods meanwhile,
		// unless it is said that nobody does.
		for _, l := range left {
			if os.Getenv(aloneEnv) != "" && l != "file "+dir || strings.Contains(l, dir+"/") {
				fmt.Fprintln(os.Stderr, "left on the machine:", l)
				code = 1
			}
		}
	}
	return code
}

// need builds the agent and starts the registry, once, or skips the test.
func need(t *testing.T) {
	t.Helper()
	if why := realruntime.Missing(); why != "" {
		t.Skip(why)
	}
	suite.once.Do(func() {
		if suite.agent, suite.err = agentProgram(); suite.err != nil {
			return
		}
		suite.registry, suite.err = realruntime.StartRegistry(context.Background(), realruntime.RegistryConfig{Password: demoPassword})
	})
	if suite.err != nil {
		t.Fatal(suite.err)
	}
}

// aloneEnv says, when it is not empty, that nobody else starts pods on this
// machine: then anything new on it is a leak.
const aloneEnv = "PODSYNC_E2E_ALONE"

// agentEnv names a program to test in the place of the one that is built.
const agentEnv = "PODSYNC_E2E_AGENT"

func agentProgram() (string, error) {
	if p := os.Getenv(agentEnv); p != "" {
		return p, nil
	}
	p := filepath.Join(suite.dir, "edgeagent")
	args := []string{"build", "-o", p}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../../examples/edgeagent")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return p, nil
}

// sharedRig returns the rig of all tests that leave agent and runtime alone, and
// lets the test run beside the others.
func sharedRig(t *testing.T) *rig {
	t.Helper()
	need(t)
	t.Parallel()
	suite.sharedOnce.Do(func() {
		suite.shared, suite.sharedErr = newRig(context.Background(), "")
		if suite.sharedErr == nil {
			suite.sharedErr = suite.shared.start(context.Background())
		}
	})
	if suite.sharedErr != nil {
		t.Fatal(suite.sharedErr)
	}
	from := len(suite.shared.log.String())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agent's log:\n%s", tail(suite.shared.log.String()[from:], 150))
		}
	})
	return suite.shared
}

// ownRig returns a rig that is the test's own, with its agent started, and lets
// the test run beside the others.
func ownRig(t *testing.T, args ...string) *rig {
	t.Helper()
	r := idleRig(t, args...)
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// idleRig is ownRig before the agent is started.
func idleRig(t *testing.T, args ...string) *rig {
	t.Helper()
	need(t)
	t.Parallel()
	r, err := newRig(t.Context(), "", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the agent's log:\n%s", r.logTail(150))
			t.Logf("the end of containerd's log:\n%s", r.Log())
		}
		for _, l := range r.close(context.WithoutCancel(t.Context())) {
			t.Errorf("left behind: %s", l)
		}
	})
	return r
}
