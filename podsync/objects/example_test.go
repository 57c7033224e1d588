package objects_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/podsync/objects"
)

// The program itself holds what its pods refer to.
func ExampleMemory() {
	ctx := context.Background()
	m := &objects.Memory{Bus: podsync.NewBus()}
	err := m.Put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		StringData: map[string]string{"user": "web"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := m.Secret(ctx, "shop", "db")
	fmt.Println(string(s.Data["user"]), s.Type, err)
	_, err = m.ConfigMap(ctx, "shop", "db")
	fmt.Println(err, errors.Is(err, podsync.ErrNotFound))
	// Output:
	// web Opaque <nil>
	// ConfigMap shop/db: not found true
}
