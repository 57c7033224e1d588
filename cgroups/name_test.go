package cgroups_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podsync/sdk/cgroups"
)

func TestCase_CGR_06_NamesRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		parts                  []string
		fs, systemd, sliceName string
	}{
		{name: "root", fs: "/", systemd: "/", sliceName: "-.slice"},
		{
			name: "pod", parts: []string{"kubepods", "burstable", "pod1234-abcd-5678-efgh"},
			fs:        "/kubepods/burstable/pod1234-abcd-5678-efgh",
			systemd:   "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd_5678_efgh.slice",
			sliceName: "kubepods-burstable-pod1234_abcd_5678_efgh.slice",
		},
		{
			name: "root of its own", parts: []string{"my-root", "kubepods", "pod1-2"},
			fs:        "/my-root/kubepods/pod1-2",
			systemd:   "/my_root.slice/my_root-kubepods.slice/my_root-kubepods-pod1_2.slice",
			sliceName: "my_root-kubepods-pod1_2.slice",
		},
		{
			name: "static pod", parts: []string{"kubepods", "pod8f6a44fc62e8cb075753c843896568ca"},
			fs:        "/kubepods/pod8f6a44fc62e8cb075753c843896568ca",
			systemd:   "/kubepods.slice/kubepods-pod8f6a44fc62e8cb075753c843896568ca.slice",
			sliceName: "kubepods-pod8f6a44fc62e8cb075753c843896568ca.slice",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := name(t, tt.parts...)
			got := []string{cgroups.Cgroupfs.Path(n), cgroups.Systemd.Path(n), n.Slice()}
			if d := cmp.Diff([]string{tt.fs, tt.systemd, tt.sliceName}, got); d != "" {
				t.Errorf("spellings (-want +got):\n%s", d)
			}
			sameName(t, n, cgroups.ParseCgroupfs, tt.fs)
			sameName(t, n, cgroups.ParseSystemd, tt.systemd)
			sameName(t, n, cgroups.ParseSlice, tt.sliceName)
		})
	}
}

func TestCase_CGR_06_BadSlices(t *testing.T) {
	for _, in := range []string{"a--b.slice", "-a.slice", ".slice", "a/b.slice", "a.scope", "", "a-.slice", "--.slice"} {
		if n, err := cgroups.ParseSlice(in); err == nil {
			t.Errorf("ParseSlice(%q) = %v, want an error", in, n)
		}
	}
	for _, in := range []string{"/a.slice/b.slice", "a.slice", "/a-b.slice", "", "/a.slice/"} {
		if n, err := cgroups.ParseSystemd(in); err == nil {
			t.Errorf("ParseSystemd(%q) = %v, want an error", in, n)
		}
	}
	for _, in := range []string{"", "a", "/a/", "/a/../b", "//a", "/a_b"} {
		if n, err := cgroups.ParseCgroupfs(in); err == nil {
			t.Errorf("ParseCgroupfs(%q) = %v, want an error", in, n)
		}
	}
}

func TestCase_CGR_07_BadUIDs(t *testing.T) {
	for _, uid := range []types.UID{"a_b", "a/b", "", "../../x", "a\x00b", "a b", "ä", "a\nb", types.UID(strings.Repeat("x", 253))} {
		_, err := cgroups.PodName(name(t, "kubepods"), corev1.PodQOSBurstable, uid)
		var ne *cgroups.NameError
		if !errors.As(err, &ne) {
			t.Errorf("PodName(%q): error %v, want a *NameError", uid, err)
		}
	}
	if _, err := cgroups.PodName(name(t, "kubepods"), "Golden", "a"); err == nil {
		t.Error("an unknown QoS class was taken")
	}
}

func TestNameUID(t *testing.T) {
	n, err := cgroups.PodName(name(t, "kubepods"), corev1.PodQOSBestEffort, "podpod-1")
	if err != nil {
		t.Fatal(err)
	}
	if uid, ok := n.UID(); !ok || uid != "podpod-1" {
		t.Errorf("UID of %s = %q, %v", n, uid, ok)
	}
	for _, other := range []string{"burstable", "pod"} {
		if uid, ok := name(t, "kubepods", other).UID(); ok {
			t.Errorf("%q is taken for the cgroup of pod %q", other, uid)
		}
	}
}

// Every name that NewName takes comes back from both spellings, and no input
// makes it panic.
func TestNameProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[a-z0-9.:@-]{1,20}`), rapid.String()), 0, 5).Draw(rt, "parts")
		n, err := cgroups.NewName(parts...)
		if err != nil {
			return
		}
		for _, f := range []struct {
			parse func(string) (cgroups.Name, error)
			in    string
		}{{cgroups.ParseCgroupfs, n.Cgroupfs()}, {cgroups.ParseSystemd, n.Systemd()}, {cgroups.ParseSlice, n.Slice()}} {
			back, err := f.parse(f.in)
			if err != nil || back.Cgroupfs() != n.Cgroupfs() {
				rt.Fatalf("%q came back as %v, %v", f.in, back, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/", "-.slice", "/a.slice/a-b.slice", "/kubepods/podx", "a--b.slice"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := cgroups.ParseSystemd(s); err == nil && n.Systemd() != s {
			t.Errorf("ParseSystemd(%q) is spelled %q", s, n.Systemd())
		}
		if n, err := cgroups.ParseCgroupfs(s); err == nil && n.Cgroupfs() != s {
			t.Errorf("ParseCgroupfs(%q) is spelled %q", s, n.Cgroupfs())
		}
	})
}

func name(t *testing.T, parts ...string) cgroups.Name {
	t.Helper()
	n, err := cgroups.NewName(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sameName(t *testing.T, want cgroups.Name, parse func(string) (cgroups.Name, error), in string) {
	t.Helper()
	got, err := parse(in)
	if err != nil || got.Cgroupfs() != want.Cgroupfs() {
		t.Errorf("%q reads as %v, %v; want %v", in, got, err, want)
	}
}
