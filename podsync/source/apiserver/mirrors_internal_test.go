package apiserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/sdk/podsync/podspec"
)

func TestMirrorActions(t *testing.T) {
	static := func(hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "static", Annotations: map[string]string{podspec.AnnotationHash: hash}}}
	}
	mirror := func(hash string, deleting bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "mirror", Annotations: map[string]string{podspec.AnnotationMirror: hash}}}
		if deleting {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for _, tc := range []struct {
		name           string
		static, mirror *corev1.Pod
		doomed         bool
		want           []string
	}{
		{"nothing", nil, nil, false, nil},
		{"new", static("h"), nil, false, []string{"create ns/a"}},
		{"as it should be", static("h"), mirror("h", false), false, nil},
		{"other content", static("h"), mirror("g", false), false, []string{"delete ns/a"}},
		{"being deleted", static("h"), mirror("h", true), false, []string{"delete ns/a"}},
		{"pod gone", nil, mirror("h", false), true, []string{"delete ns/a"}},
		{"pod not seen yet", nil, mirror("h", false), false, nil},
		{"nobody's and being deleted", nil, mirror("h", true), false, []string{"delete ns/a"}},
		{"doomed and gone", nil, nil, true, nil},
		{"doomed, but it came back", static("h"), mirror("h", false), true, nil},
		{"no hash: the UID", static(""), mirror("static", false), false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			one := func(p *corev1.Pod) map[string]*corev1.Pod {
				if p == nil {
					return nil
				}
				return map[string]*corev1.Pod{fullName(p): p}
			}
			var doomed map[string]bool
			if tc.doomed {
				doomed = map[string]bool{"ns/a": true}
			}
			var got []string
			for _, a := range mirrorActions(one(tc.static), one(tc.mirror), doomed) {
				if a.remove != nil {
					got = append(got, "delete "+fullName(a.remove))
				} else {
					got = append(got, "create "+fullName(a.create))
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A mirror is told of once a static pod meets it, whichever came first.
func TestKnown(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "static"}}
	mirror := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "m1", Annotations: map[string]string{podspec.AnnotationMirror: "static"}}}
	var told []types.UID
	m := &Mirrors{Known: func(uid types.UID) { told = append(told, uid) }}
	m.observe(mirror)
	if len(told) != 0 {
		t.Errorf("told of %v before there was a static pod", told)
	}
	if met := m.want(pod); !met {
		t.Error("the static pod did not meet the mirror of before")
	}
	m.observe(mirror)
	again := mirror.DeepCopy()
	again.UID = "m2"
	m.observe(again)
	if d := cmp.Diff([]types.UID{"static"}, told); d != "" {
		t.Errorf("told of the new mirror once: %s", d)
	}
	m.gone(mirror) // an old one; late news
	if uid, ok := m.Of("ns", "a"); !ok || uid != "m2" {
		t.Errorf("mirror is %s, %v", uid, ok)
	}
}
