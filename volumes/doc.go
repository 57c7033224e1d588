// Package volumes makes a pod's directories and volumes and takes them down
// again. A Manager drives the plugins, one per kind of volume, each in a folder
// of its own behind the small interface Plugin; the stages Dirs, Mounted and
// Unmounted put it into the pipelines, and Cleaner finds what pods left that
// nobody knows any more:
//
//	layout := volumes.Layout{Root: "/var/lib/agent"}
//	manager, err := volumes.New(volumes.Options{Layout: layout, Objects: objects})
//	…
//	plan.Sync.Append(volumes.Dirs(layout)).Append(volumes.Mounted(manager))
//	plan.Terminated.Append(volumes.Unmounted(manager))
//
// Directories, their names and their modes are the kubelet's, so that an agent
// can take over a node from it and hand it back. Nothing is remembered that the
// disk and the mount table do not tell: taking down works after a restart,
// without the pod's spec.
//
// What a container can write to is hostile: subPaths are opened part by part
// without leaving the volume and bound by their handle, and nothing is deleted
// through a link or a mount.
package volumes
