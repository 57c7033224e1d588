package manifest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/source/manifest"
)

func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: i:1\n"
}

func names(objs []manifest.Object) (list []string) {
	for _, o := range objs {
		list = append(list, o.Kind+" "+o.Name)
	}
	return list
}

func TestRead(t *testing.T) {
	jsonPod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[]}}`
	for _, tt := range []struct {
		name, data string
		want       []string
		// errs are the texts of the faults, without the file's name.
		errs []string
	}{
		{name: "CFG-04 a two pods", data: pod("a") + "---\n" + pod("b"), want: []string{"Pod a", "Pod b"}},
		{name: "CFG-04 b config map, then pod", data: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n---\n" + pod("a"), want: []string{"ConfigMap m", "Pod a"}},
		{name: "CFG-04 c leading marker", data: "---\n" + pod("a"), want: []string{"Pod a"}},
		{name: "CFG-04 d comments, then marker", data: "# a\n# b\n---\n" + pod("a"), want: []string{"Pod a"}},
		{name: "CFG-04 e trailing marker", data: pod("a") + "---\n", want: []string{"Pod a"}},
		{name: "CFG-04 f List", data: "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(pod("a")), "\n", "\n  "), want: []string{"Pod a"}},
		{name: "CFG-04 g PodList", data: "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n- {}\n", want: []string{"Pod a", "Pod b", "Pod "}},
		{name: "empty PodList", data: `{"apiVersion":"v1","kind":"PodList","items":[]}`},
		{name: "PodList cut before its items", data: "apiVersion: v1\nkind: PodList\n", errs: []string{": document 1 (line 1), PodList: items: is missing; an empty list is written []"}},
		{name: "CFG-04 h empty", data: "", errs: []string{": contains no document"}},
		{name: "CFG-04 i comments only", data: "# nothing\n---\n\n# here\n", errs: []string{": contains no document"}},
		{name: "CFG-04 j another kind is the caller's business", data: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n", want: []string{"Deployment d"}},
		{name: "no kind", data: "metadata: {name: a}\n", errs: []string{": document 1 (line 1), a: kind: unsupported kind: it is missing"}},
		{name: "no apiVersion", data: "kind: Pod\n", errs: []string{": document 1 (line 1), Pod: apiVersion: unsupported kind: it is missing"}},
		{name: "list in a list", data: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[]}]}`,
			errs: []string{": document 1 (line 1), items[0], List: unsupported kind: a list in a list"}},
		{name: "bad item", data: `{"apiVersion":"v1","kind":"List","items":[7,` + jsonPod + `]}`, want: []string{"Pod j"},
			errs: []string{": document 1 (line 1), items[0]: is not an object but a number"}},

		{name: "one bad document of three", data: pod("a") + "---\nfoo: [\n---\n" + pod("b"), want: []string{"Pod a", "Pod b"},
			errs: []string{": document 2 (line 10): syntax error: yaml: line 10: did not find expected node content"}},
		{name: "top-level list", data: "- a\n", errs: []string{": document 1 (line 1): is not an object but a list"}},
		{name: "top-level text", data: "hello\n", errs: []string{": document 1 (line 1): is not an object but a string"}},
		{name: "null", data: "null\n", errs: []string{": document 1 (line 1): is not an object but null"}},
		{name: "marker in a block of text ends it", data: "a: |\n  text\n---\n" + pod("a"), want: []string{"Pod a"},
			errs: []string{": document 1 (line 1): kind: unsupported kind: it is missing"}},
		{name: "marker with spaces around is text", data: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: |\n    x\n    ---\n    y\n", want: []string{"ConfigMap m"}},
		{name: "marker with a comment", data: "--- # first\n" + pod("a") + "--- # second\n" + pod("b"), want: []string{"Pod a", "Pod b"}},
		{name: "document on the marker's line", data: "--- {apiVersion: v1, kind: Pod}\n", errs: []string{": document 1 (line 1): syntax error: line 1: invalid character 'a' looking for beginning of object key string"}},
		{name: "end marker", data: pod("a") + "...\n" + pod("b"), want: []string{"Pod a", "Pod b"}},
		{name: "directive", data: "%YAML 1.1\n---\n" + pod("a"), want: []string{"Pod a"}},

		{name: "CFG-05 CRLF", data: strings.ReplaceAll(pod("a")+"---\n"+pod("b"), "\n", "\r\n"), want: []string{"Pod a", "Pod b"}},
		{name: "CFG-05 BOM", data: "\ufeff" + pod("a"), want: []string{"Pod a"}},
		{name: "CFG-05 BOM and JSON", data: "\ufeff" + jsonPod, want: []string{"Pod j"}},
		{name: "UTF-16", data: "\xff\xfea\x00", errs: []string{": syntax error: the file is in UTF-16; it must be in UTF-8"}},
		{name: "CFG-05 tab", data: "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
			errs: []string{": document 1 (line 1): syntax error: yaml: line 4: found character that cannot start any token"}},
		{name: "CFG-05 JSON", data: jsonPod, want: []string{"Pod j"}},
		{name: "JSON documents in a row", data: jsonPod + "\n" + jsonPod, want: []string{"Pod j", "Pod j"}},
		{name: "JSON documents with a marker", data: jsonPod + "\n---\n" + jsonPod, want: []string{"Pod j", "Pod j"}},
		{name: "JSON, then garbage", data: jsonPod + "\n}", want: []string{"Pod j"},
			errs: []string{": document 2 (line 2): syntax error: line 2: invalid character '}' looking for beginning of value"}},
		{name: "CFG-05 JSON with a trailing comma", data: "{\n\"kind\":\"Pod\",\n}",
			errs: []string{": document 1 (line 1): syntax error: line 3: invalid character '}' looking for beginning of object key string"}},
		{name: "JSON cut off", data: jsonPod[:40], errs: []string{": document 1 (line 1): syntax error: unexpected EOF"}},
		{name: "CFG-03 first 40 bytes", data: pod("web")[:40], errs: []string{": document 1 (line 1): metadata: cannot use string as object"}},
		{name: "control characters in names", data: `{"apiVersion":"v1","kind":"Po\nd","metadata":5}`,
			errs: []string{": document 1 (line 1): metadata: cannot use number as object"}},
		{name: "a field named by a list", data: "? [a]\n: b\n", errs: []string{": document 1 (line 1): syntax error: line 1: a field's name is not a word"}},
		{name: "alias within what it names", data: "a: &x [*x]\n", errs: []string{": document 1 (line 1): syntax error: line 1: an alias stands within what it names"}},
		{name: "unknown alias", data: "a: *x\n", errs: []string{": document 1 (line 1): syntax error: yaml: unknown anchor 'x' referenced"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objs, errs := manifest.Read("f.yaml", []byte(tt.data))
			var texts []string
			for _, e := range errs {
				texts = append(texts, strings.TrimPrefix(e.Error(), "f.yaml"))
			}
			if d := cmp.Diff(tt.want, names(objs)); d != "" {
				t.Errorf("objects, -want +got:\n%s", d)
			}
			if d := cmp.Diff(tt.errs, texts); d != "" {
				t.Errorf("faults, -want +got:\n%s", d)
			}
		})
	}
}

func TestRead_faultsCanBeToldApart(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       error
	}{
		{"syntax", "a: [", manifest.ErrSyntax},
		{"JSON syntax", "{", manifest.ErrSyntax},
		{"empty", "", manifest.ErrEmpty},
		{"not an object", "a", manifest.ErrNotObject},
		{"kind", "a: b", manifest.ErrKind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := manifest.Read("f", []byte(tt.data))
			if len(errs) != 1 || !errors.Is(errs[0], tt.want) {
				t.Errorf("want %v, got %v", tt.want, errs)
			}
		})
	}
}

func TestCase_CFG_07_AliasBombs(t *testing.T) {
	nested := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'i'; c++ {
		p := string(c - 1)
		nested += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+p+",", 9), ","))
	}
	wide := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1<<12) + "]\n"
	merged := "a: &a {" + strings.Repeat("x", 1000) + ": 1}\nb: &b {k: *a, l: *a}\nc: {<<: *b, d: [" + strings.Repeat("*b,", 1<<15) + "]}\n"
	for name, data := range map[string]string{"nine levels of nine": nested, "one long text many times": wide, "merges": merged} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, errs := manifest.Read("bomb", []byte(data))
			runtime.ReadMemStats(&after)
			if len(errs) != 1 || !errors.Is(errs[0], manifest.ErrTooLarge) {
				t.Errorf("want ErrTooLarge, got %v", errs)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("want little memory used, got %d MiB", used>>20)
			}
		})
	}
}

func TestRead_isBounded(t *testing.T) {
	_, errs := manifest.Read("f", []byte(strings.Repeat("--- a\n", 100_000)))
	if len(errs) > 40 {
		t.Errorf("want a bounded number of faults, got %d", len(errs))
	}
	objs, errs := manifest.Read("f", []byte(strings.Repeat(`{"apiVersion":"v1","kind":"Pod"}`, 50_000)))
	if len(objs) > 10_000 || len(errs) != 1 || !errors.Is(errs[0], manifest.ErrTooLarge) {
		t.Errorf("want a bounded number of objects, got %d and %v", len(objs), errs)
	}
	deep := `{"apiVersion":"v1","kind":"Pod","x":` + strings.Repeat("[", 1<<20)
	if _, errs := manifest.Read("f", []byte(deep)); len(errs) == 0 {
		t.Error("want deep nesting refused")
	}
	if _, errs := manifest.Read("f", []byte("a: "+strings.Repeat("[", 1<<18))); len(errs) == 0 {
		t.Error("want deep nesting refused")
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		warnings   []string
		err        string
	}{
		{name: "fine", data: pod("a")},
		{name: "unknown field", data: pod("a") + "  restartpolicy: Never\n  hostNetwerk: true\n",
			warnings: []string{`field "spec.hostNetwerk" is unknown and was ignored`, `field "spec.restartpolicy" is unknown and was ignored`}},
		{name: "unknown field of a container", data: pod("a") + "    imagePolicy: x\n", warnings: []string{`field "spec.containers[0].imagePolicy" is unknown and was ignored`}},
		{name: "field twice", data: pod("a") + "    image: j:2\n", warnings: []string{`field "spec.containers[0].image" is given twice; the last one counts`}},
		{name: "JSON field twice", data: `{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"a","nodeName":"b"}}`,
			warnings: []string{`field "spec.nodeName" is given twice; the last one counts`}},
		{name: "JSON field twice in a list", data: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"a","nodeName":"b"}}]}`,
			warnings: []string{`field "spec.nodeName" is given twice; the last one counts`}},
		{name: "merged field replaced", data: "x: &x {name: c, image: i}\n" + strings.Replace(pod("a"), "- name: c", "- <<: *x\n    name: d", 1),
			warnings: []string{`field "x" is unknown and was ignored`}},
		{name: "number for a text", data: pod("a") + "    env: [{name: A, value: 5}]\n",
			err: "f: document 1 (line 1), Pod a: spec.containers.env.value: cannot use number as string; write it in quotes"},
		{name: "text for a number", data: pod("a") + "  priority: high\n", err: "f: document 1 (line 1), Pod a: spec.priority: cannot use string as int32"},
		{name: "yes is true, as in the kubelet", data: pod("a") + "  hostNetwork: yes\n"},
		{name: "octal", data: pod("a") + "  volumes: [{name: v, configMap: {name: m, defaultMode: 0400}}]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objs, errs := manifest.Read("f", []byte(tt.data))
			if len(errs) > 0 || len(objs) != 1 {
				t.Fatalf("want one object, got %d and %v", len(objs), errs)
			}
			var p corev1.Pod
			warnings, err := objs[0].Decode(&p)
			var texts []string
			for _, w := range warnings {
				texts = append(texts, w.Message)
			}
			if d := cmp.Diff(tt.warnings, texts); d != "" {
				t.Errorf("warnings, -want +got:\n%s", d)
			}
			if got := fmt.Sprint(err); tt.err != "" && got != tt.err || tt.err == "" && err != nil {
				t.Errorf("error: want %q, got %v", tt.err, err)
			}
			if tt.name == "octal" && *p.Spec.Volumes[0].ConfigMap.DefaultMode != 0o400 {
				t.Errorf("want mode 0400, got %o", *p.Spec.Volumes[0].ConfigMap.DefaultMode)
			}
		})
	}
}

// Whatever a manifest with a secret has wrong, its values stay out of the text.
func TestDecode_showsNoValue(t *testing.T) {
	for _, data := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 31337}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: [hunter2]\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: hunter2}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nimmutable: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {[hunter2]: x}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {~: hunter2}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: .inf}\n",
		"apiVersion: v1\nkind: Secret\nstringData: {a: hunter2\n",
		"apiVersion: v1\nkind: Secret\nstringData:\n  a: hunter2\n b: x\n",
		`{"apiVersion":"v1","kind":"Secret","stringData":{"a":31337}}`,
		`{"apiVersion":"v1","kind":"Secret","data":{"a":"hunter2"}}`,
		`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"hunter2"},}`,
		`"hunter2"`,
	} {
		objs, errs := manifest.Read("f", []byte(data))
		text := fmt.Sprint(errs)
		for i := range objs {
			_, err := objs[i].Decode(&corev1.Secret{})
			text += fmt.Sprint(err)
		}
		if strings.Contains(text, "hunter2") || strings.Contains(text, "31337") {
			t.Errorf("%s\nshows a value: %s", data, text)
		}
		if !strings.Contains(text, "f: ") {
			t.Errorf("%s\nwant an error, got %s", data, text)
		}
	}
}

func TestIgnored(t *testing.T) {
	for name, want := range map[string]bool{
		"web.yaml": false, "web": false, "web.json": false, "web.yml": false, "1web": false, "web.2": false,
		".web.yaml": true, "..data": true, "web.yaml~": true, "#web.yaml#": true, ".#web.yaml": true, "web.yaml.swp": true, "web.tmp": true,
		"web.yaml.bak": true, "4913": true, "5036": true, "web.yaml.dpkg-new": true, "web.yaml.rpmsave": true, "WEB.BAK": true, "web.part": true,
	} {
		if got := manifest.Ignored(name); got != want {
			t.Errorf("Ignored(%q): want %v, got %v", name, want, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(pod("a") + "---\n" + pod("b")))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{},7]}{"a":1`))
	f.Add([]byte("a: &a [*a]\n---\n? {b: c}\n: <<\n...\n%YAML 1.1\n--- x"))
	f.Add([]byte("\ufeff---\r\n&a a: *a\n<<: [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objs, errs := manifest.Read("f", data)
		if len(objs)+len(errs) == 0 {
			// Only an empty list may say nothing.
			if !strings.Contains(string(data), "items") {
				t.Fatalf("%q was dropped in silence", data)
			}
		}
		for i := range objs {
			if objs[i].Kind == "" || objs[i].APIVersion == "" || objs[i].Document == 0 {
				t.Fatalf("incomplete object %+v", objs[i])
			}
			_, _ = objs[i].Decode(&corev1.Pod{})
		}
		for _, e := range errs {
			if e.Err == nil || e.File != "f" {
				t.Fatalf("incomplete error %+v", e)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for name, data := range map[string]string{"YAML": pod("a"), "JSON": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				objs, errs := manifest.Read("f", []byte(data))
				if len(errs) > 0 {
					b.Fatal(errs)
				}
				if _, err := objs[0].Decode(&corev1.Pod{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
