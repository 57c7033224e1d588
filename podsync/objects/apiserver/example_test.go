package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/podsync/objects/apiserver"
)

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/namespaces/default/secrets/login" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"login","namespace":"default"},"data":{"user":"bWU="}}`)
	}))
	defer server.Close()
	c, err := kubeclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	objs := &apiserver.Objects{Client: c.Core, Parameters: c.Parameters}
	s, err := objs.Secret(context.Background(), "default", "login")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = objs.ConfigMap(context.Background(), "default", "settings")
	fmt.Println(string(s.Data["user"]), errors.Is(err, podsync.ErrNotFound))
	// Output: me true
}
