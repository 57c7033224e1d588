package plugin_test

import (
	"fmt"

	"github.com/podsync/sdk/volumes/plugin"
)

func ExampleEscapeName() {
	fmt.Println(plugin.EscapeName("kubernetes.io/empty-dir"))
	// Output: kubernetes.io~empty-dir
}
