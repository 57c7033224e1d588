package images

import "github.com/podsync/sdk/podsync"

// PullSecrets returns the stage podsync.StagePullSecrets: it reads the pull
// secrets that a pod names and leaves them under podsync.PullSecrets. One that
// is missing or cannot be read is a Warning event and a name under
// podsync.MissingPullSecrets, and the pull is tried without it: the image may be
// public. nil objects count as none there.
func PullSecrets(objects podsync.Objects) podsync.Stage { return nil }
