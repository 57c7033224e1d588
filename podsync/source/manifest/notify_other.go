//go:build !linux

package manifest

func newNotifier(dir string) (notifier, error) { return newFSNotifier(dir) }
