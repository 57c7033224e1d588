package realruntime_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/sdk/internal/realruntime"
)

func TestLocateBin(t *testing.T) {
	t.Setenv(realruntime.BinEnv, "")
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	got, err := realruntime.LocateBin()
	if want := filepath.Join(root, ".bin"); err != nil || got != want {
		t.Errorf("below a go.mod: %q, %v, want %q", got, err, want)
	}
	if why := realruntime.Missing(); !strings.Contains(why, "make runtime") && !strings.HasPrefix(why, "needs root") && !strings.HasPrefix(why, "needs Linux") {
		t.Errorf("Missing says %q", why)
	}
	t.Setenv(realruntime.BinEnv, "/elsewhere")
	if got, err := realruntime.LocateBin(); err != nil || got != "/elsewhere" {
		t.Errorf("with the variable set: %q, %v", got, err)
	}
	t.Setenv(realruntime.BinEnv, "")
	t.Chdir("/")
	if got, err := realruntime.LocateBin(); err == nil {
		t.Errorf("with nowhere to look: %q", got)
	}
}
