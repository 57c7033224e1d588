package cni_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podsync/sdk/cni"
)

const bridge = `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap"}]}`

// TestCase_NET_06_07_Files: what a single file comes to. NET-07 (d), a version
// that a plugin does not know, is only seen when the plugin is called.
func TestCase_NET_06_07_Files(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string
		// network is "" when the file is broken, and then broken is in the text.
		network, broken string
		plugins         []string
	}{
		{name: "list", file: "10-x.conflist", content: bridge, network: "pods", plugins: []string{"bridge", "host-local", "portmap"}},
		{name: "single", file: "10-x.conf", content: `{"cniVersion":"1.0.0","name":"n","type":"ptp"}`, network: "n", plugins: []string{"ptp"}},
		{name: "single as json", file: "10-x.json", content: `{"name":"n","type":"ptp"}`, network: "n", plugins: []string{"ptp"}},
		{name: "NET-06a", file: "x.conf", content: `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`, broken: "missing 'type'"},
		{name: "NET-06b", file: "x.conflist", content: `{"cniVersion":"1.0.0","name":"n","type":"bridge"}`, broken: "no plugin configs found"},
		{name: "NET-06c", file: "x.conflist", content: `{"cniVersion":"1.0.0","name":"n","plugins":[]}`, broken: "no plugins in list"},
		{name: "NET-07a list", file: "x.conflist", content: `{"cniVersion":"1.0.0","plugins":[{"type":"bridge"}]}`, broken: "no name"},
		{name: "NET-07a single", file: "x.conf", content: `{"cniVersion":"1.0.0","type":"bridge"}`, broken: "missing network name"},
		{name: "NET-07b list", file: "x.conflist", content: `{"name":5,"plugins":[{"type":"bridge"}]}`, broken: "invalid name type"},
		{name: "NET-07b single", file: "x.conf", content: `{"name":5,"type":"bridge"}`, broken: "name"},
		{name: "NET-07c", file: "x.conflist", content: `{"name":"n","plugins":[{"type":"bridge"}]}`, network: "n", plugins: []string{"bridge"}},
		{name: "NET-07e", file: "x.conflist", content: `{"name":"a/b","plugins":[{"type":"bridge"}]}`, broken: "invalid characters"},
		{name: "NET-07e single", file: "x.conf", content: `{"name":"../b","type":"bridge"}`, broken: "invalid characters"},
		{name: "no json", file: "x.conflist", content: `name: n`, broken: "invalid character"},
		{name: "empty", file: "x.conf", content: ``, broken: "unexpected end"},
		{name: "null", file: "x.conflist", content: `null`, broken: "no name"},
		{name: "too large", file: "x.conflist", content: strings.Repeat(" ", 1<<20+1), broken: "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, tt.file), tt.content)
			networks, broken, err := cni.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if tt.network == "" {
				checkBroken(t, broken, filepath.Join(dir, tt.file), tt.broken)
				checker := &cni.FromDir{ConfDir: dir, BinDirs: []string{dir}}
				ready, reason, message := checker.Ready(t.Context())
				if ready || reason != cni.ReasonNoConfig || !strings.Contains(message, tt.file) {
					t.Errorf("Ready: %v, %s, %q; want the file to be named", ready, reason, message)
				}
				return
			}
			if len(networks) != 1 || len(broken) != 0 {
				t.Fatalf("Load: %v, %v", networks, broken)
			}
			if networks[0].Name != tt.network || !slices.Equal(networks[0].Plugins, tt.plugins) {
				t.Errorf("network %q of %q, want %q of %q", networks[0].Name, networks[0].Plugins, tt.network, tt.plugins)
			}
		})
	}
}

func checkBroken(t *testing.T, broken []error, file, text string) {
	t.Helper()
	if len(broken) != 1 {
		t.Fatalf("broken: %v", broken)
	}
	var ce *cni.ConfigError
	if !errors.As(broken[0], &ce) || ce.File != file || !strings.Contains(ce.Error(), text) {
		t.Errorf("broken: %v, want %q of %s", broken[0], text, file)
	}
}

func TestLoadOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "20-b.conflist"), strings.Replace(bridge, "pods", "b", 1))
	write(t, filepath.Join(dir, "10-a.conf"), `{"name":"a","type":"ptp"}`)
	write(t, filepath.Join(dir, "05-broken.conflist"), `{`)
	write(t, filepath.Join(dir, "00-notes.txt"), `hello`)
	if err := os.Mkdir(filepath.Join(dir, "01-dir.conflist"), 0o755); err != nil {
		t.Fatal(err)
	}
	networks, broken, err := cni.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range networks {
		names = append(names, n.Name)
	}
	if d := cmp.Diff([]string{"a", "b"}, names); d != "" || len(broken) != 1 {
		t.Errorf("networks (-want +got):\n%s\nbroken: %v", d, broken)
	}
	if networks, broken, err = cni.Load(filepath.Join(dir, "none")); len(networks)+len(broken) != 0 || err != nil {
		t.Errorf("no directory: %v, %v, %v", networks, broken, err)
	}
}

// A list may leave its plugins to files in a directory of its name.
func TestLoadPluginsFromDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "10-n.conflist"), `{"cniVersion":"1.1.0","name":"n"}`)
	if err := os.Mkdir(filepath.Join(dir, "n"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "n", "10-bridge.conf"), `{"type":"bridge"}`)
	networks, broken, err := cni.Load(dir)
	if err != nil || len(broken) != 0 || len(networks) != 1 || !slices.Equal(networks[0].Plugins, []string{"bridge"}) {
		t.Errorf("Load: %v, %v, %v", networks, broken, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("x.conflist", []byte(bridge))
	f.Add("x.conf", []byte(`{"name":"n","type":"ptp"}`))
	f.Add("x.conflist", []byte(`{"name":"../..","plugins":{}}`))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		if name != "x.conf" {
			name = "x.conflist"
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		networks, broken, err := cni.Load(dir)
		if err != nil || len(networks)+len(broken) != 1 {
			t.Errorf("Load: %v, %v, %v", networks, broken, err)
		}
	})
}

func write(t *testing.T, file, content string) {
	t.Helper()
	// As tools do it, so that nobody sees half a file.
	tmp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp")
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}
