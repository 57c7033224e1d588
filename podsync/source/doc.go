// Package source has the places that pods come from on a node without, or
// beside, an API server: a directory of manifests (Dir), a URL (HTTP), and the
// embedding program itself (Memory). Each is a podsync.Source.
//
//	src := &source.Dir{Path: "/etc/edge/pods", Node: "edge-1"}
//	err := src.Run(ctx, func(pods []*corev1.Pod) { … })
//
// What Dir and HTTP hand over is defaulted and valid, as package podspec
// understands it. A fault never takes away a running pod: while a document
// cannot be used, its file or URL keeps the pods of its last good content, and
// Problems and the log say what is wrong and where.
package source
