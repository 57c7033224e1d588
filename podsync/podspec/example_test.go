package podspec_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync/podspec"
)

// A pod from a file becomes what an API server would have made of it.
func Example() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.local:5000/web"}}},
	}
	err := podspec.ApplyStaticDefaults(pod, podspec.Static{Node: "edge-1", SourceName: "file", Origin: "/etc/pods/web.yaml", File: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	podspec.Default(pod)
	fmt.Println(podspec.Validate(pod))
	fmt.Println(pod.Namespace, pod.Name, len(pod.UID))
	fmt.Println(pod.Spec.RestartPolicy, pod.Spec.Containers[0].ImagePullPolicy, podspec.QOS(pod))
	// Output:
	// <nil>
	// default web-edge-1 32
	// Always Always BestEffort
}

// Every fault of a pod is named with its field and the rule.
func ExampleValidate() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "../../tmp"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	podspec.Default(pod)
	fmt.Println(podspec.Validate(pod))
	// Output:
	// pod default/web(../../tmp) is invalid: metadata.uid: Invalid value: "../../tmp": must consist of letters, digits and inner '-', because it becomes a directory name, a cgroup name and a label value
}
