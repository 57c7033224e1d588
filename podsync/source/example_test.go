package source_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync/source"
)

// A directory of manifests is a source of pods. One bad file is a problem to
// look at, not a reason to stop.
func ExampleDir() {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	files := map[string]string{
		"web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: 'nginx:1'}]}\n",
		"bad.yaml": "kind: [\n",
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	src := &source.Dir{Path: dir, Node: "edge-1"}
	err = src.Run(ctx, func(pods []*corev1.Pod) {
		for _, p := range pods {
			fmt.Println(p.Namespace, p.Name, p.Spec.Containers[0].ImagePullPolicy)
		}
		cancel()
	})
	fmt.Println(err)
	for _, p := range src.Problems() {
		fmt.Println(filepath.Base(p.File), "has a problem")
	}
	// Output:
	// default web-edge-1 IfNotPresent
	// <nil>
	// bad.yaml has a problem
}

// Memory takes pods from the program itself.
func ExampleMemory() {
	src := &source.Memory{}
	src.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}})
	ctx, cancel := context.WithCancel(context.Background())
	err := src.Run(ctx, func(pods []*corev1.Pod) {
		fmt.Println(len(pods), pods[0].Name)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// 1 web
	// <nil>
}

// Decode reads one manifest. What is wrong is named; what is good is returned.
func ExampleDecode() {
	data := []byte(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwerk: true
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
`)
	pods, warnings, err := source.Decode("web.yaml", data)
	fmt.Println(len(pods), pods[0].Name)
	fmt.Println(warnings[0])
	var de *source.DecodeError
	fmt.Println(errors.As(err, &de), de.Document, de.Object)
	// Output:
	// 1 web
	// web.yaml: document 1 (line 2), Pod web: field "spec.hostNetwerk" is unknown and was ignored
	// true 2 Deployment db
}
