package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/podsync/sdk/podsync/store"
)

func Example() {
	var s store.Store = &store.Memory{}
	ctx := context.Background()
	if err := s.Put(ctx, "userns", "pod-1", []byte("65536")); err != nil {
		fmt.Println(err)
	}
	v, err := s.Get(ctx, "userns", "pod-1")
	fmt.Println(string(v), err)
	_, err = s.Get(ctx, "userns", "pod-2")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// 65536 <nil>
	// true
}
