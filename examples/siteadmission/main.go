// Siteadmission adds two admission stages of a site to the standard ones: one
// that refuses pods, and one that lets them wait for an event.
package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/podsync/sdk/podsync"
)

// License refuses pods of namespaces that have no license.
type License struct{ Namespaces map[string]bool }

// Name has the site's domain, so that it collides with nobody's.
func (License) Name() string { return "example.com/license" }

// Run is asked once per pod, before anything of it is made.
func (l License) Run(_ context.Context, s *podsync.Sync) podsync.Outcome {
	if ns := s.Pod().Namespace; !l.Namespaces[ns] {
		return podsync.Reject("LicenseMissing", "namespace %s has no license", ns)
	}
	return podsync.Continue()
}

// Cooled is published when the device is cool enough again.
const Cooled podsync.Topic = "example.com/Cooled"

// Thermal lets pods wait while the device is too hot. It is a Component: the
// same check also stands before containers are started again.
type Thermal struct{ Hot *atomic.Bool }

// Install puts the check into two phases.
func (t Thermal) Install(p *podsync.Plan) {
	check := podsync.NewStage("example.com/thermal", func(context.Context, *podsync.Sync) podsync.Outcome {
		if t.Hot.Load() {
			return podsync.Wait(time.Minute, "NodeTooHot", "the device is above its limit").WakeOn(Cooled)
		}
		return podsync.Continue()
	})
	p.Admit.Before(podsync.StageResources, check)
	p.Sync.Before(podsync.StageRuntime, check)
}

func main() {
	fmt.Println("see main_test.go: the stages are run on a node in memory")
}
