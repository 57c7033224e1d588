package config_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/cri/config"
)

// What a runtime is asked for to start one container of a pod.
func Example() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "u1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "registry.local/app:1",
			Args: []string{"--listen=$(IP):80"},
			Env:  []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		}}},
	}
	c := &pod.Spec.Containers[0]
	node := &config.Node{Name: "edge-1"}

	sandbox, err := config.Sandbox(config.SandboxInput{Pod: pod, Node: node})
	if err != nil {
		fmt.Println(err)
		return
	}
	env, err := config.Env(context.Background(), config.EnvInput{Pod: pod, Container: c, Node: node, PodIPs: []string{"10.0.0.7"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	container, err := config.Container(config.ContainerInput{Pod: pod, Container: c, Node: node, Env: env})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sandbox.Hostname, sandbox.LogDirectory+"/"+container.LogPath)
	fmt.Println(container.Args, container.Labels[config.LabelContainerName])
	// Output:
	// web /var/log/pods/shop_web_u1/app/0.log
	// [--listen=10.0.0.7:80] app
}
