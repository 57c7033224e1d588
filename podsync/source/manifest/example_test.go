package manifest_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podsync/sdk/podsync/source/manifest"
)

// A site reads a kind of its own out of the manifests beside the pods.
func Example() {
	data := []byte(`apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.1, prots: []}
---
- not an object
`)
	objs, errs := manifest.Read("web.yaml", data)
	for i := range objs {
		var svc corev1.Service
		warnings, err := objs[i].Decode(&svc)
		fmt.Println(objs[i].Kind, svc.Name, svc.Spec.ClusterIP, err)
		fmt.Println(warnings[0])
	}
	fmt.Println(errs[0])
	// Output:
	// Service web 10.0.0.1 <nil>
	// web.yaml: document 1 (line 1), Service shop/web: field "spec.prots" is unknown and was ignored
	// web.yaml: document 2 (line 6): is not an object but a list
}
