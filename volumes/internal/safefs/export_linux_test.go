package safefs

import "golang.org/x/sys/unix"

// OpenDirOld opens a directory as on kernels without openat2.
func OpenDirOld(parent int, name string) (int, error) {
	return openDirOld(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
}
