package images_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/cri/images"
	"github.com/podsync/sdk/cri/memory"
	"github.com/podsync/sdk/podsync"
)

// A private image, first without and then with its pull secret.
func Example() {
	runtime := memory.New(memory.Options{Registry: map[string]memory.RemoteImage{
		"registry.local/app:1": {Username: "robot", Password: "s3cr3t"},
	}})
	defer runtime.Shutdown()
	ctx := context.Background()
	puller := images.New(images.Options{Service: runtime})
	request := images.Request{
		Pod:       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}},
		Container: "app",
		Image:     "registry.local/app:1",
	}

	_, err := puller.Ensure(ctx, request)
	fmt.Println(podsync.ReasonOf(err), podsync.Retry(err).Kind())
	_, err = puller.Ensure(ctx, request)
	fmt.Println(podsync.ReasonOf(err))

	request.Secrets = []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "registry"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.local":{"username":"robot","password":"s3cr3t"}}}`)},
	}}
	puller.Reset("u1", request.Image)
	_, err = puller.Ensure(ctx, request)
	fmt.Println(err)
	// Output:
	// ErrImagePull Retry
	// ImagePullBackOff
	// <nil>
}
