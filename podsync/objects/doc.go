// Package objects gives pods the ConfigMaps and Secrets they refer to on a node
// that has no API server: from a directory of manifests (Dir) or from the
// embedding program (Memory). Both are podsync.Objects, and both publish
// podsync.TopicObjectsChanged on their Bus when something changes.
//
// Secrets are kept in memory only. No error, log or event of this package shows
// a value; keys, names and fields it does show. The files that Dir reads should
// belong to root and have mode 0600; Dir warns of those that others can read.
package objects
