package downwardapi_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/volumes/downwardapi"
	"github.com/podsync/sdk/volumes/plugin"
	"github.com/podsync/sdk/volumes/volumestest"
)

func item(path, field string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
}

func TestConformance(t *testing.T) {
	volumestest.Plugin(t, volumestest.Case{
		New: func() plugin.Plugin { return downwardapi.Plugin{} },
		Volume: corev1.Volume{Name: "vol", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{item("name", "metadata.name"), item("meta/labels", "metadata.labels")},
		}}},
	})
}

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", UID: "u-1",
			Labels:      map[string]string{"b": "2", "a": "say \"hi\"\n"},
			Annotations: map[string]string{"example.com/it's": "yes"},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("100Mi")},
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "hugepages-2Mi": resource.MustParse("4Mi")},
			}}},
			InitContainers: []corev1.Container{{Name: "init"}},
		},
	}
}

func TestField(t *testing.T) {
	for _, test := range []struct {
		path, want string
		bad        bool
	}{
		{path: "metadata.name", want: "web"}, {path: "metadata.namespace", want: "ns"}, {path: "metadata.uid", want: "u-1"},
		{path: "metadata.labels", want: "a=\"say \\\"hi\\\"\\n\"\nb=\"2\""},
		{path: "metadata.labels['b']", want: "2"}, {path: "metadata.labels['none']", want: ""},
		{path: "metadata.annotations['example.com/it's']", want: "yes"},
		{path: "spec.nodeName", bad: true}, {path: "status.podIP", bad: true}, {path: "metadata.labels['']", bad: true}, {path: "", bad: true},
	} {
		got, err := downwardapi.Field(testPod(), test.path)
		if got != test.want || (err != nil) != test.bad {
			t.Errorf("Field(%q) = %q, %v, want %q", test.path, got, err, test.want)
		}
	}
}

func TestResource(t *testing.T) {
	allocatable := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
	for _, test := range []struct {
		container, resource, divisor string
		want                         string
		bad                          bool
	}{
		{container: "main", resource: "requests.cpu", want: "1"}, // rounded up
		{container: "main", resource: "requests.cpu", divisor: "1m", want: "250"},
		{container: "main", resource: "limits.cpu", divisor: "1", want: "2"},
		{container: "main", resource: "requests.memory", divisor: "1Mi", want: "100"},
		{container: "main", resource: "limits.memory", divisor: "1Gi", want: "8"}, // the node's
		{container: "init", resource: "limits.cpu", want: "4"},
		{container: "init", resource: "requests.cpu", want: "0"},
		{container: "init", resource: "limits.ephemeral-storage", want: "0"}, // not known
		{container: "main", resource: "limits.hugepages-2Mi", divisor: "1Mi", want: "4"},
		{container: "none", resource: "limits.cpu", bad: true},
		{container: "main", resource: "limits.gpu", bad: true},
		{container: "main", resource: "cpu", bad: true},
		{container: "main", resource: "wishes.cpu", bad: true},
		{container: "main", resource: "limits.cpu", divisor: "-1", bad: true},
	} {
		ref := &corev1.ResourceFieldSelector{ContainerName: test.container, Resource: test.resource}
		if test.divisor != "" {
			ref.Divisor = resource.MustParse(test.divisor)
		}
		got, err := downwardapi.Resource(testPod(), ref, allocatable)
		if got != test.want || (err != nil) != test.bad {
			t.Errorf("Resource(%s %s / %s) = %q, %v, want %q", test.container, test.resource, test.divisor, got, err, test.want)
		}
	}
}

func TestPayloadTellsEveryMistake(t *testing.T) {
	_, err := downwardapi.Payload(testPod(), []corev1.DownwardAPIVolumeFile{
		item("../x", "metadata.name"), item("node", "spec.nodeName"), {Path: "empty"}, item("ok", "metadata.name"),
	}, nil, nil)
	for _, want := range []string{`"../x"`, `"node"`, "spec.nodeName", `"empty"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func ExampleField() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "web", "app": "shop"}}}
	labels, _ := downwardapi.Field(pod, "metadata.labels")
	fmt.Println(labels)
	// Output:
	// app="shop"
	// tier="web"
}
