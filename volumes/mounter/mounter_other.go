//go:build !linux

// Package mounter mounts by system call on Linux; elsewhere it is the mounter
// of k8s.io/mount-utils.
package mounter

import mount "k8s.io/mount-utils"

// New returns the mounter of k8s.io/mount-utils.
func New() mount.Interface { return mount.New("") }
