package content_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/atomicwriter"
	"github.com/podsync/sdk/volumes/content"
	"github.com/podsync/sdk/volumes/volumestest"
)

func TestCase_VOL_04_Optional(t *testing.T) {
	timeout := errors.New("timeout")
	items := []corev1.KeyToPath{{Key: "a", Path: "x/a"}, {Key: "gone", Path: "gone"}}
	for _, test := range []struct {
		name     string
		object   map[string]string
		fault    error
		optional bool
		items    []corev1.KeyToPath
		want     []string
		err      error
		key      string
	}{
		{name: "VOL-04 (a) optional, object missing", optional: true, want: []string{}},
		{name: "VOL-04 (b) optional, key missing", optional: true, object: map[string]string{"a": "1"}, items: items, want: []string{"x/a"}},
		{name: "VOL-04 (c) required, key missing", object: map[string]string{"a": "1"}, items: items, err: podsync.ErrNotFound, key: "gone"},
		{name: "VOL-04 (d) optional, but cannot be read", optional: true, fault: timeout, err: timeout},
		{name: "VOL-04 (e) the object appears", optional: true, object: map[string]string{"a": "1", "b": "2"}, want: []string{"a", "b"}},
		{name: "required, object missing", err: podsync.ErrNotFound},
		{name: "required, cannot be read", fault: timeout, err: timeout},
		{name: "empty object", object: map[string]string{}, want: []string{}},
	} {
		for _, kind := range []string{"config map", "secret"} {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				o := &volumestest.Objects{Func: func(string, string) error { return test.fault }}
				o.SetConfigMap("app", test.object)
				o.SetSecret("app", test.object)
				read := content.ConfigMap
				if kind == "secret" {
					read = content.Secret
				}
				p, err := read(t.Context(), o, "default", "app", content.Source{Items: test.items, Optional: test.optional})
				if !errors.Is(err, test.err) {
					t.Fatalf("error %v, want %v", err, test.err)
				}
				if err != nil {
					var missing *content.MissingError
					if got := errors.As(err, &missing); got != (test.err == podsync.ErrNotFound) {
						t.Fatalf("error %T, want *MissingError = %v", err, !got)
					}
					if missing != nil && (missing.Key != test.key || missing.Kind != kind || !strings.Contains(err.Error(), "default/app")) {
						t.Errorf("error %q, key %q, does not name what is missing", err, missing.Key)
					}
					return
				}
				got := []string{}
				for _, k := range []string{"a", "b", "gone", "x/a"} {
					if _, ok := p[k]; ok {
						got = append(got, k)
					}
				}
				if d := cmp.Diff(test.want, got); d != "" || len(p) != len(got) {
					t.Errorf("files (-want +got):\n%s", d)
				}
			})
		}
	}
}

func TestErrorsShowNoContent(t *testing.T) {
	o := &volumestest.Objects{}
	o.SetSecret("app", map[string]string{"key": "hunter2"})
	_, err := content.Secret(t.Context(), o, "default", "app", content.Source{Items: []corev1.KeyToPath{{Key: "no", Path: "no"}}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestCase_SEC_01_ItemPaths(t *testing.T) {
	for _, p := range []string{"../x", "..x", "/x", "a/../../x", ""} {
		_, err := content.Select(map[string][]byte{"k": nil}, content.Source{Items: []corev1.KeyToPath{{Key: "k", Path: p}}}, content.MissingError{})
		var pe *atomicwriter.PathError
		if !errors.As(err, &pe) {
			t.Errorf("item path %q: %v, want a *PathError", p, err)
		}
	}
	if _, err := content.Select(map[string][]byte{"../k": nil}, content.Source{}, content.MissingError{}); err == nil {
		t.Error("key ../k was accepted as a file name")
	}
}

// YAML's 0440, 288 and JSON's 288 are one mode.
func TestCase_VOL_07_ModeNotations(t *testing.T) {
	for _, doc := range []string{"defaultMode: 0440", "defaultMode: 288", `{"defaultMode": 288}`} {
		var v corev1.ConfigMapVolumeSource
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if m, err := content.Mode(nil, v.DefaultMode); err != nil || m != 0o440 {
			t.Errorf("%s: mode %v, %v", doc, m, err)
		}
	}
}

func TestMode(t *testing.T) {
	n := func(m int32) *int32 { return &m }
	for _, test := range []struct {
		item, volume *int32
		want         int
		bad          bool
	}{
		{want: 0o644}, {volume: n(0o400), want: 0o400}, {item: n(0o444), volume: n(0o400), want: 0o444},
		{item: n(0), want: 0}, {volume: n(0o1777), bad: true}, {item: n(-1), bad: true},
	} {
		m, err := content.Mode(test.item, test.volume)
		if int(m) != test.want || (err != nil) != test.bad {
			t.Errorf("Mode(%v, %v) = %v, %v", test.item, test.volume, m, err)
		}
	}
}

func ExampleConfigMap() {
	o := &volumestest.Objects{}
	o.SetConfigMap("app", map[string]string{"config": "x=1"})
	p, err := content.ConfigMap(context.Background(), o, "default", "app", content.Source{
		Items: []corev1.KeyToPath{{Key: "config", Path: "etc/app.conf"}},
	})
	fmt.Printf("%s %v\n", p["etc/app.conf"].Data, err)
	_, err = content.ConfigMap(context.Background(), o, "default", "other", content.Source{})
	fmt.Println(err)
	// Output:
	// x=1 <nil>
	// config map "default/other" not found
}
