package kubeclient_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync/kubeclient"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"u1"}}`)
	}))
	defer server.Close()
	c, err := kubeclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{}
	err = c.Core.Get().Namespace("default").Resource("pods").Name("web").Do(context.Background()).Into(pod)
	fmt.Println(pod.UID, err)
	// Output: u1 <nil>
}
