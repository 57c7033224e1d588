package volumestest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/podsync/sdk/podsync"
	"github.com/podsync/sdk/volumes/volumestest"
)

// A fault of the mounter, for one call.
func ExampleMounter() {
	m := volumestest.NewMounter()
	calls := 0
	m.MountFunc = func(string, string, string, []string) error {
		if calls++; calls == 1 {
			return errors.New("no memory")
		}
		return nil
	}
	fmt.Println(m.Mount("tmpfs", "/mnt", "tmpfs", nil))
	fmt.Println(m.Mount("tmpfs", "/mnt", "tmpfs", nil))
	l, _ := m.List()
	fmt.Println(len(l), "mounted at", l[0].Path)
	// Output:
	// no memory
	// <nil>
	// 1 mounted at /mnt
}

func ExampleObjects() {
	o := &volumestest.Objects{}
	o.SetSecret("tls", map[string]string{"key": "…"})
	_, err := o.Secret(context.Background(), "default", "tls")
	fmt.Println(err)
	_, err = o.Secret(context.Background(), "default", "other")
	fmt.Println(errors.Is(err, podsync.ErrNotFound))
	// Output:
	// <nil>
	// true
}

func TestPodMountsItsVolumes(t *testing.T) {
	p := volumestest.Pod("u-1")
	if p.UID != "u-1" || p.Namespace != "default" || len(p.Spec.Containers) != 1 {
		t.Errorf("pod %+v", p)
	}
}
