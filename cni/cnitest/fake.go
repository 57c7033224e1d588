package cnitest

import (
	"context"

	"github.com/podsync/sdk/cni"
)

// Fake is a cni.Checker made of a function; where that is nil the network is
// ready. Limits: it publishes nothing on a bus, so that a pod that waits for the
// network looks again only when its time is up or the test publishes
// podsync.TopicNetworkReady. Set the field before use.
type Fake struct {
	// ReadyFunc answers Ready.
	ReadyFunc func(ctx context.Context) (ready bool, reason, message string)
}

var _ cni.Checker = (*Fake)(nil)

// Ready implements cni.Checker.
func (f *Fake) Ready(ctx context.Context) (ready bool, reason, message string) {
	if f.ReadyFunc == nil {
		return true, "", ""
	}
	return f.ReadyFunc(ctx)
}
