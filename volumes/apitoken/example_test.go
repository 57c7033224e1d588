package apitoken_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podsync/sdk/podsync/kubeclient"
	"github.com/podsync/sdk/volumes/apitoken"
)

func Example() {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600},"status":{"token":"secret","expirationTimestamp":%q}}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer server.Close()
	c, err := kubeclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens := &apitoken.Source{Client: c.Core}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}}
	for range 2 {
		if _, err := tokens.Token(context.Background(), pod, "", time.Hour); err != nil {
			fmt.Println(err)
		}
	}
	t, err := tokens.Token(context.Background(), pod, "", time.Hour)
	fmt.Println(asked, t.RefreshAt.After(time.Now().Add(40*time.Minute)), err)
	// Output: 1 true <nil>
}
