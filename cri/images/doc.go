// Package images brings the images of a pod's containers onto the node: it
// finds the credentials for an image in pull secrets, pulls by the pull policy
// with backoff and bounded parallelism, and gives the sync path its pull-secrets
// stage.
//
// It works against k8s.io/cri-api's ImageManagerService and behaves as the
// kubelet 1.37 does: names reach the runtime as written but for a default tag,
// credentials are tried most specific key first, a failed pull is tried again
// after 10 s, 20 s, … 300 s with the last error in the message. On purpose it
// does better in these: pods that need the same image with the same credentials
// share one pull, pulls may begin while the sandbox is made (Prefetch), a
// success resets the backoff, and the backoff can be kept across restarts
// (State, Restore).
//
// No error, event, log line or String method of this package shows a
// credential.
package images
