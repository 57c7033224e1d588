package realruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// BinEnv is the environment variable that names the directory of the pinned programs.
const BinEnv = "PODSYNC_BIN"

// errNoBin: there is nowhere to look.
var errNoBin = errors.New("no go.mod above the working directory, and " + BinEnv + " is not set")

// programs lists what [Start] and [StartRegistry] run.
func programs() []string {
	return []string{
		"containerd", "containerd-shim-runc-v2", "runc", "demoregistry",
		"cni/bridge", "cni/host-local", "cni/loopback", "cni/portmap", "images/pause", "images/busybox",
	}
}

// LocateBin returns the directory that `make runtime` fills: $PODSYNC_BIN, or .bin beside the go.mod nearest
// above the working directory. It does not look whether anything is there; [Missing] does.
func LocateBin() (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("locate the pinned programs: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, ".bin"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("locate the pinned programs: %w", errNoBin)
		}
		dir = parent
	}
}

// Missing says in one line what keeps a real runtime from being started here, and what to do about it; it is
// empty when nothing does. Tests skip with it.
func Missing() string {
	if runtime.GOOS != "linux" {
		return "needs Linux; this is " + runtime.GOOS
	}
	if os.Geteuid() != 0 {
		return "needs root"
	}
	dir, err := LocateBin()
	if err != nil {
		return err.Error()
	}
	var missing []string
	for _, p := range programs() {
		if _, err := os.Stat(filepath.Join(dir, p)); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("needs %s in %s; run: make runtime", strings.Join(missing, ", "), dir)
	}
	return ""
}
